"""An audit whose target is served: the same β as with the target here, within what the server leaves open."""

import json
from dataclasses import replace

import numpy as np
import pytest
from serving import LlamaServer, SglangServer, VllmServer, serving
from tiny import VOCAB, letter_tokenizer, llama, save, tiny_pair

from specviz import settings
from specviz.__main__ import main
from specviz.decoding.sampling import SamplingConfig, effective_probs
from specviz.diagnosis import logs
from specviz.diagnosis.audit import Audit, AuditError
from specviz.diagnosis.log_requests import readings_in
from specviz.diagnosis.observe import Bench
from specviz.diagnosis.prompts import parse
from specviz.diagnosis.readings import Reading
from specviz.diagnosis.report import Report
from specviz.diagnosis.served import http
from specviz.diagnosis.served.engines import find
from specviz.diagnosis.served.http import KEY, Refused, Server, ServerError
from specviz.diagnosis.served.rows import Row, chance, overlap
from specviz.diagnosis.served.target import ServedTarget
from specviz.diagnosis.setting import Setting
from specviz.models.errors import LoadError
from specviz.models.pair import LoadedPair

ENGINES = (VllmServer, SglangServer, LlamaServer)
V = len(VOCAB)
PAIR = tiny_pair()
SETTING = Setting(max_new_tokens=12, self_checks=0, k=3)
PROMPTS = "hello\nthe cat sat\nabc abc"
SECRET = "sk-very-secret-3141"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(http.time, "sleep", lambda seconds: None)
    monkeypatch.delenv(KEY, raising=False)


def served_bench(url, setting, leading, listen=False, **server):
    engine = find(Server(url, sleep=lambda seconds: None, **server), leading)
    target = ServedTarget(engine, V, PAIR.target.available, 256, PAIR.target.model, listen)
    return Bench(LoadedPair("served", target, PAIR.draft, PAIR.tokenizer), setting)


def audited(folder, bench, prompts):
    work = Audit(folder, prompts, bench.setting)
    while not work.finished:
        work.step(bench)
    work.close()
    return Report.of(folder)


def texts(sampling, n=2):
    """Prompts with answers, so that both audits read the same texts."""
    lines = [
        {"prompt": "hello", "answer": "abca bc.d"},
        {"prompt": "the cat", "answer": " sat on 0123"},
    ]
    return parse("\n".join(json.dumps(line) for line in lines[:n]), True)


# What leading log-probabilities leave open.

CONTROLS = (
    SamplingConfig(),
    SamplingConfig(temperature=0.6),
    SamplingConfig(temperature=1.5),
    SamplingConfig(temperature=0.0),
    SamplingConfig(top_k=3),
    SamplingConfig(top_k=8),
    SamplingConfig(top_k=20, temperature=1.3),
    SamplingConfig(top_p=0.5),
    SamplingConfig(top_p=0.97, temperature=1.4),
    SamplingConfig(min_p=0.2),
    SamplingConfig(min_p=0.001, top_p=0.9, temperature=0.8),
)


def leading_of(logprobs, count, token=None):
    order = np.argsort(-logprobs)[:count].tolist()
    order += [] if token is None or token in order else [token]
    named = [(id, float(logprobs[id])) for id in order]
    return Row.of(named, count, np.ones(len(logprobs), dtype=bool))


@pytest.mark.parametrize("sampling", CONTROLS, ids=str)
def test_beta_and_p_lie_where_it_is_said(sampling):
    draws = np.random.default_rng(3)
    widths = []
    for spread in (0.5, 1.5, 4.0) * 12:
        scores = draws.normal(0, spread, 40)
        if draws.random() < 0.3:
            scores = scores.round(1)  # ties, as in bfloat16
        logprobs = scores - np.log(np.exp(scores).sum())
        q = draws.dirichlet(np.full(40, 0.3))
        p = effective_probs(logprobs[None], [[]], sampling).probs[0]
        token = int(draws.integers(40))
        for count in (1, 8, 25):
            row = leading_of(logprobs, count, token)
            low, high = overlap(row, q, sampling)
            assert low - 1e-12 <= np.minimum(p, q).sum() <= high + 1e-12
            widths.append(high - low)
            if sampling == SamplingConfig():  # the formula of the module, and no wider
                assert high - low <= row.rest + 1e-12
            for id in (token, int(row.ids[0]), int(draws.integers(40))):
                low, high = chance(row, id, sampling)
                assert low - 1e-12 <= p[id] <= high + 1e-12
        whole = leading_of(logprobs, 40)
        low, high = overlap(whole, q, sampling)
        assert low == pytest.approx(high, abs=1e-12)
    if sampling.greedy:
        assert max(widths) == 0.0


def test_filters_that_the_leading_tokens_decide_leave_nothing_open():
    scores = np.linspace(4, -4, 40)
    logprobs = scores - np.log(np.exp(scores).sum())
    q = np.full(40, 1 / 40)
    row = leading_of(logprobs, 20)
    for sampling in (SamplingConfig(top_k=19), SamplingConfig(top_p=0.5), SamplingConfig(min_p=0.3)):
        low, high = overlap(row, q, sampling)
        assert low == pytest.approx(high, abs=1e-15)
    assert np.diff(overlap(row, q, SamplingConfig(temperature=0.7)))[0] > 0


@pytest.mark.parametrize(
    "named, said",
    [
        ([(1, 0.5)], "log-probability 0.5"),
        ([(1, float("nan"))], "log-probability nan"),
        ([(1, -0.1), (2, -0.2)], "add up to"),
        ([(99, -0.1)], "no token of this vocabulary"),
    ],
)
def test_numbers_that_are_no_distribution_are_refused(named, said):
    with pytest.raises(ValueError, match=said):
        Row.of(named, 5, np.ones(40, dtype=bool))


# The same β as with the target here.


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("sampling", [SamplingConfig(), SamplingConfig(temperature=0.7, top_p=0.9)], ids=str)
def test_whole_rows_give_the_same_numbers_as_the_target_here(kind, sampling, tmp_path):
    setting = replace(SETTING, sampling=sampling, draft_sampling=sampling)
    local = audited(tmp_path / "local", Bench(PAIR, setting), texts(sampling))
    with serving(kind(PAIR.target, most=-1)) as url:
        given = replace(setting, served=url, leading=0)
        report = audited(tmp_path / "served", served_bench(url, given, 0), texts(sampling))
    for column in ("token", "p", "p_entropy", "beta", "q|draft|now|0", "logprob"):
        here, there = (r.frames["tokens"][column].to_numpy(float) for r in (local, report))
        assert np.allclose(here, there, atol=2e-6, equal_nan=True), column
    tokens = report.frames["tokens"]
    assert np.allclose(tokens["beta_low"], tokens["beta_high"], atol=1e-7)
    assert report.alpha == pytest.approx(local.alpha, abs=1e-6)
    assert report.mean_length == local.mean_length and report.about["costs"] is None


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("sampling", [SamplingConfig(), SamplingConfig(temperature=0.7)], ids=str)
def test_leading_tokens_give_an_interval_that_holds_beta(kind, sampling, tmp_path):
    setting = replace(SETTING, sampling=sampling, draft_sampling=sampling)
    local = audited(tmp_path / "local", Bench(PAIR, setting), texts(sampling))
    with serving(kind(PAIR.target)) as url:
        given = replace(setting, served=url, leading=12)
        report = audited(tmp_path / "served", served_bench(url, given, 12), texts(sampling))
    here, there = local.frames["tokens"], report.frames["tokens"]
    for name in ("beta", "p"):
        low, high = there[f"{name}_low"].to_numpy(float), there[f"{name}_high"].to_numpy(float)
        inside = [here[name].to_numpy(float), there[name].to_numpy(float)]
        assert all(((low - 1e-6 <= values) & (values <= high + 1e-6)).all() for values in inside), name
        assert (high - low).max() < 0.6
    assert (there["beta_high"] - there["beta_low"]).mean() > 1e-3
    if kind is not LlamaServer and sampling == SamplingConfig():  # these two name the text's own token
        assert np.allclose(here["p"], there["p"], atol=1e-6)
    from specviz.diagnosis.served.account import bounds

    found = bounds(report)
    expected = local.texts.outcome(local.texts.now).mean
    assert found.alpha[0] <= local.alpha <= found.alpha[1] and found.open[0] > 0
    assert found.length[0] - 1e-6 <= expected <= found.length[1] + 1e-6


@pytest.mark.parametrize("kind", ENGINES)
def test_the_server_writes_where_no_answer_is_given(kind, tmp_path):
    served = kind(PAIR.target)
    with serving(served) as url:
        setting = replace(SETTING, served=url, sampling=SamplingConfig(temperature=0.8, top_k=5))
        report = audited(tmp_path, served_bench(url, setting, None, listen=True), parse(PROMPTS, False))
    assert report.totals["prompts"] == 3 and report.totals["tokens"] == 36 and report.scored
    assert not list((tmp_path / "traces").iterdir())
    # Under top-k 5 every written token is among the five: the controls were passed on and applied here.
    assert (report.frames["tokens"]["p"] > 0).all()
    said = logs.together([Reading(**r) for r in report.checks["engine"]])
    assert said.drafted == 2 * said.accepted > 0


# Killed, and resumed; the command.


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    (folder / "p.txt").write_text(PROMPTS)
    tokenizer = letter_tokenizer()
    config = PAIR.target.model.config
    (folder / "target").mkdir()
    config.save_pretrained(folder / "target")  # no weights: they are on the server
    tokenizer.save_pretrained(folder / "target")
    save(folder / "draft", llama(2), tokenizer)
    return folder


def command(folders, out, url, *more):
    given = ["audit", str(folders / "p.txt"), "--target", str(folders / "target"), "--out", str(out)]
    return main([*given, "--max-new-tokens", "10", "--target-served", url, *more])


@pytest.mark.slow
def test_broken_off_it_goes_on_with_another_address_of_the_same_model(folders, tmp_path, capsys):
    draft = ["--draft", str(folders / "draft")]
    served = VllmServer(PAIR.target, PAIR.tokenizer)
    real = served.post

    def breaks(path, body):
        if len(list((tmp_path / "out" / "parts").glob("*"))) == 1:
            served.cut_off = True
        return real(path, body)

    served.post = breaks
    with serving(served) as url:
        assert command(folders, tmp_path / "out", url, *draft) == 1
    assert "the same command goes on" in capsys.readouterr().err
    (part,) = (tmp_path / "out" / "parts").iterdir()
    before = part.stat().st_mtime_ns
    with serving(VllmServer(PAIR.target, PAIR.tokenizer)) as url:
        assert command(folders, tmp_path / "out", url, *draft, "--served-engine") == 0
        assert command(folders, tmp_path / "whole", url, *draft) == 0
    assert part.stat().st_mtime_ns == before
    here, there = (Report.of(tmp_path / name).frames["tokens"] for name in ("out", "whole"))
    assert here.equals(there)
    shown = capsys.readouterr().out
    assert "p came from vLLM (tiny/served), 20 leading" in shown and "α lies between" in shown
    with pytest.raises(AuditError, match="serves 'other'"), serving(VllmServer(PAIR.target)) as url:
        bench = served_bench(url, Report.of(tmp_path / "whole").setting, None)
        bench.pair.target.engine.model = "other"
        Audit(tmp_path / "whole", parse(PROMPTS, False), bench.setting).begin(bench)


def test_what_the_server_says_of_its_own_speculation_stands_beside_it(folders, tmp_path, capsys):
    log = tmp_path / "server.log"
    log.write_text("draft acceptance rate = 0.37333 (   28 accepted /    75 generated)\n")
    served = VllmServer(PAIR.target)
    served.per_request = False  # then the counters of /metrics, by their change
    served.counters["drafts"] = 1000
    with serving(served) as url:
        assert command(folders, tmp_path / "a", url, "--drafter", "ngram", "--served-engine", str(log)) == 0
    shown = capsys.readouterr().out
    assert "/metrics, while it wrote these texts" in shown and "drafted 36 · rounds 9" in shown
    assert "every request of the server, and not ours alone" in shown
    assert "what its log says" in shown and "37.3%" in shown
    served = SglangServer(PAIR.target)
    served.drafted = lambda written: 0
    with serving(served) as url:
        assert command(folders, tmp_path / "b", url, "--drafter", "ngram", "--served-engine") == 0
    assert "says nothing of speculation of its own" in capsys.readouterr().out
    assert command(folders, tmp_path / "c", url, "--served-engine", str(tmp_path / "none.log")) == 1
    assert "there is no log" in capsys.readouterr().err


def test_readings_of_the_three_engines():
    sglang = {"meta_info": {"spec_verify_ct": 4, "completion_tokens": 11}}
    llama_cpp = {"timings": {"draft_n": 16, "draft_n_accepted": 14}}
    (first,), (second,) = readings_in(sglang), readings_in(llama_cpp)
    assert (first.rounds, first.accepted, second.accepted, second.drafted) == (4, 7, 14, 16)
    assert not readings_in({"meta_info": {"spec_verify_ct": 0}, "timings": {"draft_n": "x"}})
    before = Reading("vLLM", "/metrics", 5, 20, 9, (6, 3), total=True)
    after = Reading("vLLM", "/metrics", 8, 32, 12, (8, 4, 1), total=True)
    change = logs.between(before, after)
    assert (change.rounds, change.drafted, change.accepted, change.reached) == (3, 12, 3, (2, 1, 1))
    assert logs.between(after, before) is None  # the server was started again


def test_a_terminal_is_told_how_far_a_text_has_been_asked_about(tmp_path, monkeypatch):
    from specviz.cli import audit as command_line

    told, seconds = [], iter(range(0, 10_000, 2))
    monkeypatch.setattr(command_line, "_progress", told.append)
    monkeypatch.setattr(command_line, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(command_line.sys.stderr, "isatty", lambda: True, raising=False)
    with serving(LlamaServer(PAIR.target)) as url:
        bench = served_bench(url, replace(SETTING, served=url), 8)
        work = Audit(tmp_path, texts(None, 1), bench.setting)
        command_line._prompt(work, bench)
    assert work.finished and "prompt 1 of 1 · asked about 3 of 9 positions" in told


# Keys.


def test_the_key_comes_from_the_environment_and_is_nowhere_else(folders, tmp_path, capsys, monkeypatch):
    served = VllmServer(PAIR.target, key=SECRET)
    arguments = ["--drafter", "ngram"]
    with serving(served) as url:
        monkeypatch.setenv(KEY, "sk-wrong-2718")
        assert command(folders, tmp_path / "a", url, *arguments) == 1
        refused = capsys.readouterr().err
        assert "401" in refused and KEY in refused and "sk-wrong" not in refused
        monkeypatch.setenv(KEY, SECRET)
        assert command(folders, tmp_path / "a", url, *arguments, "--json") == 0
    shown = capsys.readouterr()
    kept = [path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()]
    assert kept and not any(SECRET.encode() in content for content in [*kept, shown.out.encode()])
    assert SECRET not in shown.err


def test_the_variable_of_the_key_is_no_misspelt_setting():
    assert KEY in settings.OTHER_VARIABLES


@pytest.mark.parametrize(
    "url, said",
    [
        ("http://user:pw@host", KEY),
        ("http://host/v1?key=abc", KEY),
        ("ftp://host", "looks like"),
        ("host:80", "looks like"),
        ("http://host:port", "cannot be read"),
    ],
)
def test_addresses_that_cannot_be_used(url, said):
    with pytest.raises(ValueError, match=said) as refused:
        Server(url)
    assert "pw@" not in str(refused.value) and "abc" not in str(refused.value)


def test_v1_behind_an_address_is_taken_off():
    assert Server("http://host:8000/v1/").url == "http://host:8000"
    assert Server("https://host/base").url == "https://host/base"


# Errors of servers.


def patient(url, **more):
    waits = []
    return Server(url, sleep=waits.append, said=lambda text: waits.append(text), **more), waits


def test_rate_limits_and_restarts_are_waited_for(tmp_path):
    served = VllmServer(PAIR.target)
    with serving(served) as url:
        server, waits = patient(url)
        served.faults = [
            (429, {"error": {"message": "slow down\x1b[2J", "code": 429}}, {"Retry-After": "7"}),
            (503, "<html>starting</html>", {}),
            (500, {"object": "error", "message": "engine"}, {}),
        ]
        answer = server.ask(
            "/v1/completions", {"model": "m", "prompt": [3, 4], "max_tokens": 1, "prompt_logprobs": 2}
        )
    assert answer["choices"] and waits[1] == 7.0
    assert "answers 429: slow down [2J" in waits[0] and "503" in waits[2] and "500: engine" in waits[4]
    assert 1.5 <= waits[3] <= 2.5 and 3.0 <= waits[5] <= 5.0


def test_it_gives_up_and_says_how_to_go_on():
    served = VllmServer(PAIR.target)
    with serving(served) as url:
        server, waits = patient(url)
        served.faults = [(503, "", {})] * http.TRIES
        with pytest.raises(ServerError, match=f"{http.TRIES} times; the same command goes on"):
            server.ask("/x", {})
        assert len(waits) == 2 * (http.TRIES - 1)
        served.faults = [(429, "", {"Retry-After": "86400"})]
        with pytest.raises(ServerError, match="asks to wait 86,400 s"):
            server.ask("/x", {})
        served.cut_off = True
        with pytest.raises(ServerError, match="cannot be reached"):
            server.ask("/x", {})
    with pytest.raises(ServerError, match="cannot be reached"):
        find(patient(url)[0])  # nobody listens there any more


def test_a_certificate_that_is_none_is_said_at_once():
    with serving(VllmServer(PAIR.target)) as url:
        server, waits = patient(url.replace("http:", "https:"))  # it speaks no TLS
        with pytest.raises(ServerError, match="certificate"):
            server.find("/v1/models")
        assert not waits


def test_a_late_answer_is_a_time_out(monkeypatch):
    monkeypatch.setattr(http, "READ", 0.05)
    monkeypatch.setattr(http, "TRIES", 2)
    served = VllmServer(PAIR.target)
    import threading

    gone = threading.Event()
    served.post = lambda path, body: (200, {"waited": gone.wait(20)})
    with serving(served) as url:
        with pytest.raises(ServerError, match="no answer within"):
            patient(url)[0].ask("/x", {})
        gone.set()


@pytest.mark.parametrize(
    "fault, error, said",
    [
        ((200, "<html>hello</html>", {}), ServerError, "not JSON"),
        ((200, "[1]", {}), ServerError, "than a JSON object"),
        ((302, "", {"Location": "http://elsewhere/?t=1"}), ServerError, "sends elsewhere"),
        ((404, {"detail": "Not Found"}, {}), ServerError, "Not Found; is this the address"),
        ((400, {"error": {"message": "too long"}}, {}), Refused, "too long"),
        ((422, {"detail": [{"msg": "bad"}]}, {}), Refused, "bad"),
    ],
)
def test_other_answers_are_told_apart(fault, error, said):
    served = VllmServer(PAIR.target)
    with serving(served) as url:
        served.faults = [fault]
        with pytest.raises(error, match=said):
            patient(url)[0].ask("/v1/completions", {})
        assert len(served.asked) == 1


def test_an_answer_without_end_is_not_read(monkeypatch):
    monkeypatch.setattr(http, "MOST_BYTES", 1000)
    served = VllmServer(PAIR.target)
    with serving(served) as url:
        served.faults = [(200, "x" * 5000, {})]
        with pytest.raises(ServerError, match="--served-leading"):
            patient(url)[0].ask("/x", {})


@pytest.mark.parametrize("kind", ENGINES)
def test_a_text_that_is_too_long_is_said_and_the_others_count(kind, tmp_path):
    with serving(kind(PAIR.target, context=24)) as url:
        setting = replace(SETTING, served=url)
        bench = served_bench(url, setting, None)
        bench.pair.target.context_length = 256  # as if the server allowed less than it says
        report = audited(tmp_path, bench, parse("hello\n" + "a" * 40, False))
    assert len(report.measured) == 1 and "context" in report.failed["error"].iloc[0]


def test_vllm_with_few_log_probabilities_is_asked_for_as_many_as_it_gives(tmp_path):
    served = VllmServer(PAIR.target, most=6)
    with serving(served) as url:
        engine = find(patient(url)[0])
        (rows,) = engine.rows([3, 4, 5, 6], 1, np.ones(V, dtype=bool))
        assert engine.leading == 6 and len(rows) == 3 and {row.leading for row in rows} == {6}
        with pytest.raises(ServerError, match="--max-logprobs -1"):
            list(find(patient(url)[0], 0).rows([3, 4], 1, np.ones(V, dtype=bool)))
        served.cached = 2
        with pytest.raises(ServerError, match="--no-enable-prefix-caching"):
            list(engine.rows([3, 4, 5, 6], 1, np.ones(V, dtype=bool)))
        served.ids_returned = False
        with pytest.raises(ServerError, match="token_ids"):
            engine.answer([3, 4], SamplingConfig(), 4, 0, False)


def test_answers_that_lack_what_was_asked_for_name_it():
    lacking = {
        VllmServer: {"choices": [{"prompt_logprobs": None}]},
        SglangServer: {"meta_info": {"input_token_logprobs": [[None, 3]], "input_top_logprobs": [None]}},
        LlamaServer: {"completion_probabilities": [{"probs": [{"tok_str": "x", "prob": 0.5}]}]},
    }
    for kind, answer in lacking.items():
        served = kind(PAIR.target)
        with serving(served) as url:
            engine = find(patient(url)[0])
            served.faults = [(200, answer, {})]
            with pytest.raises(ServerError, match="lacks"):
                list(engine.rows([3, 4, 5], 1, np.ones(V, dtype=bool)))


def test_a_server_that_is_none_of_the_three_is_refused():
    served = VllmServer(PAIR.target)
    served.get = lambda path: (200, {"data": [{"id": "x", "owned_by": "openai"}]} if "v1" in path else {})
    with serving(served) as url, pytest.raises(ServerError, match="is not known for vLLM"):
        find(patient(url)[0])


# What cannot be audited against a server.


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--drafter", "eagle"], "hidden states"),
        (["--drafter", "ngram", "--second", "early-exit"], "hidden states"),
        (["--drafter", "ngram", "--repetition-penalty", "1.2"], "work on its logits"),
        (["--drafter", "ngram", "--verifier", "always-accept"], "loaded here"),
    ],
)
def test_what_needs_more_than_probabilities_is_refused(folders, tmp_path, capsys, arguments, said):
    with serving(VllmServer(PAIR.target)) as url:
        assert command(folders, tmp_path, url, *arguments) == 1
    error = capsys.readouterr().err
    assert said in error


def test_another_tokenizer_than_the_servers_is_refused(folders, tmp_path, capsys):
    other = letter_tokenizer([*VOCAB[:3], *reversed(VOCAB[3:])])
    with serving(VllmServer(PAIR.target, other)) as url:
        assert command(folders, tmp_path, url, "--drafter", "ngram") == 1
    assert "other tokens than --target" in capsys.readouterr().err


def test_an_eagle_checkpoint_is_refused_by_name(folders, tmp_path):
    import published

    from specviz.diagnosis.served.pairs import served_bench as load
    from specviz.models import sources
    from specviz.models.progress import silent

    config, tensors = published.eagle_one(V)
    draft = published.save(tmp_path / "eagle", config, tensors)
    with serving(VllmServer(PAIR.target)) as url:
        setting = Setting(target=str(folders / "target"), draft=draft, served=url)
        with pytest.raises(LoadError, match=r"eagle.*works on the target's hidden states"):
            load(find(patient(url)[0]), setting, sources.place("cpu", "float32"), silent)
