"""A target that another engine serves: an audit takes p from vLLM, SGLang or llama.cpp.

http.py       requests: keys, time-outs, waiting, and what a server's errors say
engines.py    which engine stands behind an address; engine.py: what is asked of any; vllm.py, sglang.py,
              llamacpp.py: in which words, and how they answer
rows.py       what leading log-probabilities say of a distribution, and what they leave open
target.py     the model that an audit leads along a text
account.py    what an audit of it says
pairs.py      which draft can be audited against it, loaded without the target's weights
"""
