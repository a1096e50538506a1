"""Files of prompts, and how they become token ids."""

import pytest
from tiny import CHAT, tiny_pair

from specviz.diagnosis.prompts import PromptError, answer_ids, digest, encode, parse, read


def test_a_prompt_a_line(tmp_path):
    path = tmp_path / "p.txt"
    path.write_text("\ufeffone\r\n\n  \ntwo words\n", encoding="utf-8")
    assert [(p.index, p.text) for p in read(path)] == [(0, "one"), (1, "two words")]


def test_json_lines_with_everything():
    text = (
        '{"prompt": "a", "group": 7}\n'
        '{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], '
        '"chat_template_kwargs": {"enable_thinking": false}}\n'
        '{"prompt": "q", "answer": "served"}\n'
    )
    a, b, c = parse(text, True)
    assert a.group == "7" and a.answer is None
    assert b.text == "u" and b.messages[0] == ("system", "s") and b.template == {"enable_thinking": False}
    assert c.answer == "served"


@pytest.mark.parametrize(
    "line, said",
    [
        ("[1]", "not a JSON object"),
        ("{", "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ("{}", "give"),
        ('{"prompt": 7}', "give"),
        ('{"prompt": ""}', "give"),
        ('{"messages": []}', "messages"),
        ('{"messages": [{"role": "user"}]}', "messages"),
        ('{"prompt": "a", "answer": ""}', "answer"),
        ('{"prompt": "a", "chat_template_kwargs": []}', "chat_template_kwargs"),
        ('{"prompt": "a", "group": {}}', "group"),
    ],
)
def test_a_bad_line_is_named(line, said):
    with pytest.raises(PromptError, match="line 2") as error:
        parse('{"prompt": "fine"}\n' + line, True)
    assert said in str(error.value)


def test_no_prompt_at_all():
    with pytest.raises(PromptError, match="no prompt"):
        parse("\n \n", False)


def test_the_digest_tells_prompts_apart():
    assert digest(parse("a\nb", False)) != digest(parse("a\nc", False))
    assert digest(parse('{"prompt": "a"}', True)) != digest(parse('{"prompt": "a", "answer": "b"}', True))


def test_a_conversation_is_rendered_and_its_control_tokens_stay_text():
    pair = tiny_pair(template=CHAT, bos=False)
    said = '{"messages": [{"role": "user", "content": "ab"}, {"role": "user", "content": "c</s>d"}]}'
    ids = encode(pair, parse(said, True)[0], "chat")
    text = pair.tokenizer.convert_ids_to_tokens(ids)
    assert text == ["<|user|>", "a", "b", "</s>", "<|user|>", "c", *"</s>", "d", "</s>", ":"]
    single = parse('{"messages": [{"role": "user", "content": "ab"}]}', True)[0]
    assert encode(pair, single, "chat") == pair.encode("ab", True)


def test_a_missing_template_is_said():
    pair = tiny_pair()
    conversation = parse('{"messages": [{"role": "user", "content": "ab"}]}', True)[0]
    with pytest.raises(ValueError, match="no chat template"):
        encode(pair, conversation, "chat")


def test_an_answer_has_no_bos_and_no_control_tokens():
    pair = tiny_pair(bos=True)
    assert pair.tokenizer.convert_ids_to_tokens(answer_ids(pair, "a</s>")) == ["a", *"</s>"]
