#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole runs of the `train` and `tessera` programs: exact resume, kills, signals, damage, full and
locked disks, exit codes, ranks.

Usage: train_cases.py BIN_FOLDER SOURCE_FOLDER [unittest arguments]
"""
import collections
import contextlib
import ctypes
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import event_files

BIN = Path(sys.argv.pop(1)).resolve()
SOURCE = Path(sys.argv.pop(1)).resolve()
FIXTURE = SOURCE / "tests/fixtures/parity.toml"
VARIES = {"step_seconds", "tokens_per_second", "model_flops_per_second", "mfu", "peak_memory_bytes"}
BASE = ["run.peak_flops=1e11", "model.num_hidden_layers=2", "lr_schedule.decay_steps=20", "train.steps=12",
        "debug.log_sample_ids=true", "model.hidden_dropout=0.1", "train.eval_interval=5", "train.eval_steps=1",
        "data.split=[0.9,0.1]"]
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def settings(keys):
    return [word for key in keys for word in ("--set", key)]


class RunCase(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="tessera_train_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def command(self, output, keys=(), arguments=()):
        keys = [*BASE, f"run.output_dir={self.folder / output}", *keys]
        return [str(BIN / "train"), "--config", str(FIXTURE), *settings(keys), *arguments]

    def train(self, output, keys=(), arguments=(), expect=0, launcher=(), prepare=None):
        """`prepare` runs in the new process before the program does."""
        result = subprocess.run([*launcher, *self.command(output, keys, arguments)], capture_output=True, text=True,
                                cwd=self.folder, timeout=120, env={**os.environ, **MPI_ENVIRONMENT},
                                preexec_fn=prepare)
        self.assertEqual(result.returncode, expect, result.stderr)
        return result

    def metrics(self, output):
        lines = (self.folder / output / "metrics.jsonl").read_text().splitlines()
        return [{k: v for k, v in json.loads(line).items() if k not in VARIES} for line in lines]

    def diff(self, a, b):
        """True when the newest checkpoints of two runs hold the same bits."""
        result = subprocess.run([BIN / "tessera", "checkpoint", "diff", "--json", "--bitwise", self.folder / a,
                                 self.folder / b], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["equal"]

    def wait_for_steps(self, process, output, count):
        """Returns once the run has made `count` more steps, or has ended."""
        path = self.folder / output / "metrics.jsonl"

        def lines():
            return path.read_bytes().count(b"\n") if path.exists() else 0

        # A run that goes on cuts lines of steps it will make again, so the count starts at what it kept.
        seen = lowest = lines()
        while process.poll() is None and seen < lowest + count:
            time.sleep(0.002)
            seen = lines()
            lowest = min(lowest, seen)

    def steps(self, output):
        return sorted(int(p.name[5:]) for p in (self.folder / output / "checkpoints").glob("step_*"))


class Resume(RunCase):
    def check_exact(self, stops, keys=()):
        self.train("straight", keys)
        for stop in [*stops, 12]:
            self.train("resumed", [*keys, f"train.steps={stop}"])
        self.assertEqual(self.metrics("resumed"), self.metrics("straight"))
        self.assertTrue(self.diff("resumed", "straight"))

    def test_stops_at_any_step_change_nothing(self):
        self.check_exact([1, 3, 4, 5, 11])

    def test_low_precision_and_loss_scale_go_on(self):
        self.check_exact([2, 7], ["precision.compute=fp16", "precision.loss_scale={type=\"dynamic\",window=3}"])

    def test_masters_of_bf16_keep_their_low_bits(self):
        self.check_exact([3, 6], ["precision.compute=bf16"])

    def test_sgd_with_momentum(self):
        self.check_exact([4], ["optimizer.type=sgd", "optimizer.momentum=0.9"])

    def test_another_number_of_ranks_sees_the_same_samples(self):
        self.train("straight")
        for stop, ranks in ((3, 1), (6, 2), (9, 3), (12, 1)):
            self.train("resumed", [f"train.steps={stop}", f"parallel.dp={ranks}"])
        straight, resumed = self.metrics("straight"), self.metrics("resumed")
        for a, b in zip(straight, resumed):
            self.assertEqual(a["sample_ids"], b["sample_ids"])
            self.assertEqual(a["lr"], b["lr"])
            self.assertEqual(a["tokens"], b["tokens"])
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4)
        ids = [tuple(i) for line in straight for i in line["sample_ids"]]
        self.assertEqual(len(ids), len(set(ids)))

    def test_first_fit_goes_on_within_a_block_on_other_layouts(self):
        texts = self.folder / "texts"
        texts.mkdir()
        corpus = (SOURCE / "data/corpus.txt").read_bytes()
        for i in range(150):  # one block of documents of 1 to 190 bytes; the run sees them more than once
            (texts / f"{i:03}.txt").write_bytes(corpus[37 * i:37 * i + 1 + 53 * i % 190])
        keys = ["data.packing=first_fit", f"data.sources=[{{path=\"{texts}\"}}]", "train.global_batch_size=27"]
        self.train("straight", keys)
        for stop, layout in ((3, ["parallel.dp=3"]), (6, ["parallel.sp=2"]), (9, ["parallel.pp=2"]),
                             (12, ["parallel.tp=2", "parallel.dp=2"])):
            self.train("resumed", [*keys, *layout, f"train.steps={stop}"])
        straight, resumed = self.metrics("straight"), self.metrics("resumed")
        for a, b in zip(straight, resumed, strict=True):
            self.assertEqual((a["sample_ids"], a["tokens"]), (b["sample_ids"], b["tokens"]))
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4)
        ids = [tuple(i) for line in straight for i in line["sample_ids"]]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertEqual({epoch for _, epoch, _, _ in ids}, {0, 1})

    def test_evaluation_changes_nothing(self):
        self.train("with")
        self.train("without", ["train.eval_interval=0"])
        strip = lambda lines: [{k: v for k, v in line.items() if k != "eval_loss"} for line in lines]
        self.assertEqual(strip(self.metrics("with")), strip(self.metrics("without")))
        self.assertTrue(self.diff("with", "without"))
        self.assertIn("eval_loss", self.metrics("with")[4])

    def test_eval_only_gives_the_same_loss_on_every_layout(self):
        self.train("run", ["train.steps=5"])
        expected = self.metrics("run")[-1]["eval_loss"]
        for ranks in (1, 2, 3):
            result = self.train("run", ["train.steps=5", f"parallel.dp={ranks}"], ["--eval-only"])
            self.assertAlmostEqual(json.loads(result.stdout)["eval_loss"], expected, delta=1e-6 * expected)

    def test_changed_keys_are_listed_and_need_leave(self):
        self.train("run", ["train.steps=2"])
        before = (self.folder / "run/config.toml").read_bytes()
        result = self.train("run", ["train.steps=4", "optimizer.lr=2e-3", "run.seed=5"], expect=2)
        self.assertIn("optimizer.lr", result.stderr)
        self.assertIn("run.seed", result.stderr)
        self.assertEqual((self.folder / "run/config.toml").read_bytes(), before)
        allow = ["--allow-change", "optimizer.lr", "--allow-change", "run.seed", "--allow-change", "data.shuffle_seed"]
        result = self.train("run", ["train.steps=4", "optimizer.lr=2e-3", "run.seed=5"], allow)
        self.assertIn("optimizer.lr", result.stderr)

    def test_a_small_budget_for_copies_makes_training_wait_for_saves(self):
        keys = ["checkpoint.interval=4"]
        peak = {}
        for output, more in (("run", []), ("waits", ["checkpoint.memory_budget_gb=1e-6"])):
            result = self.train(output, [*keys, *more])
            self.assertRegex(result.stderr, r"planned ([\d.]+) MiB, measured \1 MiB", "copies are part of the plan")
            line = (self.folder / output / "metrics.jsonl").read_text().splitlines()[-1]
            peak[output] = json.loads(line)["peak_memory_bytes"]
        self.assertLess(peak["waits"], peak["run"])
        self.assertEqual(self.metrics("run"), self.metrics("waits"))
        self.assertTrue(self.diff("run", "waits"))

    def test_the_written_config_reads_back(self):
        self.train("run", ["train.steps=2"])
        again = subprocess.run([BIN / "train", "--config", self.folder / "run/config.toml", "--print", "config"],
                               capture_output=True, text=True, cwd="/", timeout=60)
        self.assertEqual(again.stdout, (self.folder / "run/config.toml").read_text(), again.stderr)


class Data(RunCase):
    """What a run says of its data: sources, stages, and which documents a step trained."""

    def setUp(self):
        super().setUp()
        corpus = (SOURCE / "data/corpus.txt").read_bytes()
        self.texts = {"books": {}, "web": {}}
        for number, name in enumerate(self.texts):
            (self.folder / name).mkdir()
            for i in range(70):  # 1 to 190 bytes, in the byte order of their names
                text = corpus[41 * i + 3000 * number:41 * i + 3000 * number + 1 + (53 * i + 7 * number) % 190]
                (self.folder / name / f"{i:03}.txt").write_bytes(text)
                self.texts[name][i] = text
        sources = ",".join(f"{{path=\"{self.folder / name}\", weight={weight}}}"
                           for name, weight in (("books", 2), ("web", 1)))
        self.keys = [f"data.sources=[{sources}]", "train.eval_interval=0", "data.split=[1, 0]",
                     "debug.dump_steps=[2, 6, 11]", "checkpoint.interval=4"]
        self.stages = "data.stages=[{start=3, weights=[1, 3]}, {start_tokens=2600, seq_length=24}]"  # 512 a step

    def trace(self, output, step):
        result = subprocess.run([BIN / "tessera", "data", self.folder / output, "--step", str(step), "--json"],
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def check_traces(self, output):
        import h5py
        names = list(self.texts)
        for line in self.metrics(output):
            trace = self.trace(output, line["step"])
            samples = trace["samples"]
            ids = [[names.index(s["source"]), s["epoch"], s["block"], s["sample"]] for s in samples]
            self.assertEqual(ids, line["sample_ids"])
            self.assertEqual([s["row"] for s in samples], list(range(8)))
            self.assertEqual(trace.get("context"), 24 if line["step"] > 6 else None)
            for part in (p | {"source": s["source"]} for s in samples for p in s["documents"]):
                text = self.texts[part["source"]][part["document"]][part["begin"]:part["end"]]
                shown = part["text"].removesuffix("...")
                self.assertTrue(text.decode(errors="replace").replace("\n", " ").startswith(shown), (text, part))
        for step in (2, 6, 11):
            with h5py.File(self.folder / output / f"debug/step_{step:08}.h5") as dump:
                documents, tokens, positions = (dump[key][:] for key in ("document_ids", "tokens", "positions"))
            for row, sample in enumerate(self.trace(output, step)["samples"]):
                at = 0
                for part in sample["documents"]:
                    count = part["end"] - part["begin"]
                    self.assertTrue((documents[row, at:at + count] == part["document"]).all())
                    text = (self.texts[sample["source"]][part["document"]] + b"\0")[part["begin"]:part["end"]]
                    got = [int(t) % 256 for t in tokens[row, at:at + count]]  # 256 ends a document
                    self.assertEqual(bytes(got), text)
                    places = positions[row, at:at + count].tolist()
                    if step > 6:
                        self.assertLess(max(places), 24)
                    else:
                        self.assertEqual(places, list(range(count)))
                    at += count
                self.assertTrue((documents[row, at:] == -1).all())

    def check_sources(self, output):
        for line in self.metrics(output):
            loss, tokens = line["source_loss"], line["source_tokens"]
            self.assertEqual(sum(tokens.values()), line["tokens"])
            self.assertEqual(set(loss), {name for name, count in tokens.items() if count})
            mean = sum(loss[name] * tokens[name] for name in loss) / line["tokens"]
            self.assertAlmostEqual(mean, line["loss"], delta=1e-6 * line["loss"])

    def test_steps_are_traced_on_every_layout(self):
        """The run changes its layout three times, and its packing rows are those of one rank."""
        keys = [*self.keys, self.stages, "data.packing=first_fit"]
        self.train("straight", keys)
        for stop, layout in ((3, ["parallel.dp=2"]), (5, ["parallel.sp=2"]), (9, ["parallel.tp=2"]), (12, ["parallel.pp=2"])):
            self.train("changed", [*keys, *layout, f"train.steps={stop}"])
        for run in ("straight", "changed"):
            self.check_traces(run)
            self.check_sources(run)
        for a, b in zip(self.metrics("straight"), self.metrics("changed"), strict=True):
            self.assertEqual((a["sample_ids"], a["source_tokens"]), (b["sample_ids"], b["source_tokens"]))
            for name, loss in a["source_loss"].items():
                self.assertAlmostEqual(b["source_loss"][name], loss, delta=1e-4 * loss)
        self.assertEqual(self.trace("straight", 12), self.trace("changed", 12))

    def test_a_mixture_that_changes_on_resume_is_traced(self):
        self.train("run", [*self.keys, "train.steps=5"])
        other = [*self.keys, "data.sources.1.weight=9", "data.stages=[{start=6, seq_length=24}]"]
        result = self.train("run", other, expect=2)
        self.assertIn("--allow-change data.sources[1].weight", result.stderr)
        self.train("run", other, ["--allow-change", "data.sources", "--allow-change", "data.stages"])
        self.check_traces("run")
        self.check_sources("run")
        ids = [tuple(i) for line in self.metrics("run") for i in line["sample_ids"]]
        self.assertEqual(len(ids), len(set(ids)))
        # A crash: the run goes on from step 4 with another mixture, and what was after it is undone.
        for step in (5, 8, 12):
            shutil.rmtree(self.folder / f"run/checkpoints/step_{step:08}", ignore_errors=True)
        self.train("run", [*self.keys, "data.sources.0.weight=9", "data.stages=[{start=6, seq_length=24}]"],
                   ["--allow-change", "data"])
        self.check_traces("run")

    def test_masked_batches_without_a_target_make_no_update(self):
        """Long prompts and few completions, so that some batches, and more ranks of a batch, train nothing."""
        lines = [{"prompt": "x" * (40 + 31 * i % 200), "completion": "yes" if i % 3 == 0 else ""} for i in range(60)]
        lines += [{"prompt": "y" * 700, "completion": "no"} for _ in range(4)]
        (self.folder / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        result = subprocess.run([BIN / "tessera", "tokenize", "--tokenizer", "bytes", "--format", "completion", "--input",
                                 self.folder / "lines.jsonl", "--output", self.folder / "masked", "--json"],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual((report["documents"], report["empty_documents"]), (24, 40))
        self.assertEqual(report["trained_tokens"], 20 * 4 + 4 * 3)
        keys = [f"data.sources=[{{path=\"{self.folder / 'masked'}\"}}]", "train.global_batch_size=3",
                "train.eval_interval=0", "data.split=[1, 0]", "train.steps=20"]
        self.train("one", keys)
        self.train("three", [*keys, "parallel.dp=3"])
        one, three = self.metrics("one"), self.metrics("three")
        for a, b in zip(one, three, strict=True):
            self.assertEqual((a["tokens"], a["skipped"]), (b["tokens"], b["skipped"]))
            self.assertEqual(a["skipped"], a["tokens"] == 0)
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4)
        self.assertGreater(one[-1]["skipped_empty_batches"], 0)
        self.assertGreater(sum(line["tokens"] for line in one), 40)
        self.assertEqual(one[-1]["skipped_empty_batches"], sum(line["tokens"] == 0 for line in one))

    def test_sources_and_faults(self):
        self.train("run", [*self.keys, "train.steps=2", "debug.dump_steps=[]"])
        result = subprocess.run([BIN / "tessera", "data", self.folder / "run", "--sources", "--json"],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        for source in json.loads(result.stdout)["sources"]:
            texts = self.texts[source["name"]].values()
            self.assertEqual(source["documents"], 70)
            self.assertEqual(source["tokens"], sum(map(len, texts)) + 70)
            self.assertEqual(source["longest_document"], max(map(len, texts)) + 1)
            self.assertEqual(source["bytes"], sum(map(len, texts)))
        def refused(code, *arguments):
            result = subprocess.run([BIN / "tessera", "data", *arguments], capture_output=True, text=True)
            self.assertEqual(result.returncode, code, result.stderr)
            return result.stderr
        self.assertIn("the run has 2 steps", refused(2, self.folder / "run", "--step", "3"))
        self.assertIn("--step N or --sources", refused(2, self.folder / "run"))
        self.assertIn("no such run folder", refused(3, self.folder / "none", "--step", "1"))
        (self.folder / "books/005.txt").write_bytes(b"changed")
        self.assertIn("not the data", refused(3, self.folder / "run", "--step", "1"))
        (self.folder / "run/data.jsonl").unlink()
        self.assertIn("data.jsonl", refused(3, self.folder / "run", "--step", "1"))


class WrongInput(RunCase):
    """Data that cannot be right: exit 3 with the file, the place and the reason, and nothing half-written."""

    def setUp(self):
        super().setUp()
        self.text = self.folder / "text.txt"
        self.text.write_bytes((SOURCE / "data/corpus.txt").read_bytes()[:20000])
        self.tokenize("tokens", self.text)

    def tokenize(self, output, *inputs, tokenizer="bytes", expect=0, arguments=()):
        before = sorted(self.folder.iterdir())
        result = subprocess.run([BIN / "tessera", "tokenize", "--tokenizer", tokenizer, "--output", self.folder / output,
                                 "--input", *inputs, *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, expect, result.stderr)
        if expect:
            self.assertEqual(sorted(self.folder.iterdir()), before)
        return result.stderr

    def refused(self, *parts, keys=()):
        """The run ends with 3, names all `parts`, and leaves no step behind."""
        result = self.train("run", [f"data.sources=[{{path=\"{self.folder / 'tokens'}\"}}]", *keys], expect=3)
        for part in parts:
            self.assertIn(str(part), result.stderr)
        self.assertEqual([p for p in self.folder.glob("run/checkpoints/step_*")], [])

    def test_a_vocabulary_larger_than_the_models(self):
        tokenizer = SOURCE / "tests/fixtures/tokenizer/llama2.json"
        self.refused(tokenizer, "700 ids", "model.vocab_size is 650",
                     keys=["model.vocab_size=650", "tokenizer.type=bpe", f"tokenizer.path={tokenizer}"])
        self.tokenize("tokens", self.text, tokenizer=tokenizer)
        note = self.folder / "tokens.meta.json"
        note.write_text(note.read_text().replace(json.loads(note.read_text())["tokenizer"], "bytes"))
        self.refused(self.folder / "tokens", "ids up to", "outside model.vocab_size = 257", keys=["model.vocab_size=257"])

    def test_ids_outside_the_vocabulary(self):
        (self.folder / "tokens.meta.json").unlink()  # tokens of others have no note
        with open(self.folder / "tokens.bin", "r+b") as tokens:
            tokens.seek(2 * 1234)
            tokens.write((60000).to_bytes(2, "little"))
        self.refused("tokens.bin: token 1234 has id 60000", "vocabulary of 1003")

    def test_truncated_tokens_and_an_index_that_points_outside(self):
        whole = (self.folder / "tokens.bin").read_bytes()
        (self.folder / "tokens.bin").write_bytes(whole[:-2])
        self.refused("tokens.idx describes", "tokens.bin has")
        (self.folder / "tokens.bin").write_bytes(whole[:-1])
        self.refused("tokens.bin has", "no whole number of uint16 tokens")
        (self.folder / "tokens.bin").write_bytes(whole)
        index = bytearray((self.folder / "tokens.idx").read_bytes())
        index[34:38] = (10**9).to_bytes(4, "little")  # the length of the only sequence
        (self.folder / "tokens.idx").write_bytes(index)
        self.refused("tokens.idx")
        (self.folder / "tokens.idx").write_bytes(index[:20])
        self.refused("tokens.idx has 20 bytes")

    def test_a_tokenizer_with_unknown_parts(self):
        wrong = json.loads((SOURCE / "tests/fixtures/tokenizer/gpt2.json").read_text())
        wrong["pre_tokenizer"] = {"type": "Telepathy"}
        path = self.folder / "tokenizer.json"
        path.write_text(json.dumps(wrong))
        message = self.tokenize("other", self.text, tokenizer=path, expect=3)
        for part in (path, "/pre_tokenizer", "Telepathy"):
            self.assertIn(str(part), message)
        self.refused(path, "Telepathy", keys=["tokenizer.type=bpe", f"tokenizer.path={path}"])

    def test_mixed_line_endings(self):
        lines = self.folder / "lines.jsonl"
        lines.write_bytes(b'{"text": "one"}\r\n{"text": "two\\r"}\n\r\n\n{"text": "three"}')
        self.tokenize("mixed", lines)
        self.assertEqual(json.loads((self.folder / "mixed.meta.json").read_text())["documents"], 3)
        lines.write_bytes(b'{"text": "one"}\n{"text": "two"}\r{"text": "three"}\n')  # no line ends with \r alone
        self.assertIn("lines.jsonl:2: ", self.tokenize("other", lines, expect=3))
        text = self.folder / "mixed.txt"
        text.write_bytes(b"a\r\nb\nc\rd")
        self.tokenize("kept", text)
        kept = (self.folder / "kept.bin").read_bytes()
        self.assertEqual(bytes(kept[:-2:2]), text.read_bytes())

    def test_tokens_that_change_during_the_run(self):
        keys = [f"data.sources=[{{path=\"{self.folder / 'tokens'}\"}}]", "train.steps=1000000",
                "checkpoint.interval=0", "train.eval_interval=0"]
        process = subprocess.Popen(self.command("run", keys), stderr=subprocess.PIPE, text=True, cwd=self.folder)
        self.wait_for_steps(process, "run", 2)
        with open(self.folder / "tokens.bin", "r+b") as tokens:
            tokens.truncate(1000)
        _, message = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3, message)
        self.assertIn("tokens.bin changed while it was read", message)


class Damage(RunCase):
    def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_is_used(self):
        keys = ["checkpoint.interval=4"]
        self.train("run", keys)
        self.train("straight", keys)
        self.assertEqual(self.steps("run"), [4, 8, 12])
        part = self.folder / "run/checkpoints/step_00000012/part_00000.h5"
        data = bytearray(part.read_bytes())
        data[len(data) // 2] ^= 1
        part.write_bytes(data)
        result = self.train("run", keys)
        self.assertIn("step_00000012", result.stderr)
        self.assertIn("after step 8", result.stderr)
        self.assertEqual(self.metrics("run"), self.metrics("straight"))
        self.assertTrue(self.diff("run", "straight"))
        lost = (self.folder / "run/metrics.lost.jsonl").read_text().splitlines()
        self.assertEqual([json.loads(line)["step"] for line in lost], [9, 10, 11, 12])

    def test_when_all_are_damaged_nothing_starts_over_them(self):
        self.train("run", ["train.steps=2"])
        for part in (self.folder / "run/checkpoints").glob("*/part_*.h5"):
            part.write_bytes(b"")
        self.train("run", expect=3)
        self.train("run", arguments=["--resume", "required"], expect=3)
        self.assertEqual(self.steps("run"), [2])


def without_override():
    """Runs in the child: root without the right to ignore file modes."""
    if os.geteuid() == 0:
        drop_from_bounding_set, dac_override, dac_read_search = 24, 1, 2
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (dac_override, dac_read_search):
            if libc.prctl(drop_from_bounding_set, capability, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "prctl")


def with_file_limit(limit):
    """Runs in the child: files end at `limit` bytes, as a quota ends them."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


class DiskCase(RunCase):
    """A run saves at steps 4, 8 and 12. Something is in the way of the second save: the first stays, and once the
    way is free the run goes on from it as if nothing had been."""
    KEYS = ["checkpoint.interval=4"]

    def begin(self, keys=()):
        self.train("straight", [*self.KEYS, *keys])
        self.train("run", [*self.KEYS, *keys, "train.steps=4"])
        self.checkpoints = self.folder / "run/checkpoints"
        self.assertEqual(self.names(self.checkpoints), ["step_00000004"])

    def names(self, folder):
        return sorted(p.name for p in folder.iterdir())

    def check_refused(self, reason, keys=(), left=("step_00000004",), **how):
        """The run ends with 3, a message that names the folder and the reason, and nothing partial."""
        result = self.train("run", [*self.KEYS, *keys], expect=3, **how)
        error = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(error), 1, result.stderr)
        self.assertIn(str(self.checkpoints), error[0])
        self.assertIn(reason, error[0])
        self.assertEqual(self.names(self.checkpoints), list(left))
        subprocess.run([BIN / "tessera", "checkpoint", "verify", self.checkpoints / "step_00000004"], check=True,
                       capture_output=True, timeout=60)
        return error[0]

    def check_goes_on(self, keys=()):
        result = self.train("run", [*self.KEYS, *keys])
        self.assertIn("after step 4", result.stderr)
        self.assertEqual(self.metrics("run"), self.metrics("straight"))
        self.assertTrue(self.diff("run", "straight"))


class Disk(DiskCase):
    def largest_file(self):
        return max(p.stat().st_size for p in self.checkpoints.glob("*/*"))

    def test_a_file_limit_ends_a_save(self):
        for keys in ([], ["checkpoint.async=false"], ["parallel.dp=2"]):
            with self.subTest(keys=keys):
                shutil.rmtree(self.folder)
                self.folder.mkdir()
                self.begin(keys)
                error = self.check_refused("File too large", keys, prepare=with_file_limit(self.largest_file() - 1))
                self.assertIn("step 8", error)
                self.assertIn("older checkpoints are unharmed", error)
                self.check_goes_on(keys)

    def test_a_file_limit_ends_the_metrics(self):
        keys = ["train.steps=40", "lr_schedule.decay_steps=40"]  # lines enough to outgrow every other file of the run
        self.begin(keys)
        # Times have more or fewer digits from run to run, so the limit keeps well below the whole.
        limit = (self.folder / "straight/metrics.jsonl").stat().st_size * 2 // 3
        for other in ("config.toml", "metrics.jsonl", "data.jsonl"):
            self.assertLess(2 * (self.folder / "run" / other).stat().st_size, limit)
        result = self.train("run", [*keys, "checkpoint.interval=0"], expect=3, prepare=with_file_limit(limit))
        self.assertRegex(result.stderr, rf"error: cannot write {self.folder}/run/metrics\.jsonl: File too large")
        self.check_goes_on(keys)

    def test_a_checkpoint_folder_without_leave_to_write(self):
        self.begin()
        self.checkpoints.chmod(0o555)
        self.addCleanup(self.checkpoints.chmod, 0o755)
        self.check_refused("Permission denied", prepare=without_override)
        # Looking needs no leave to write.
        self.train("run", [*self.KEYS, "train.steps=4"], ["--eval-only"], prepare=without_override)
        self.checkpoints.chmod(0o755)
        self.check_goes_on()

    def test_a_folder_that_loses_leave_in_the_middle_of_a_run(self):
        self.begin()
        # More steps than any machine makes before the folder is locked.
        keys = [*self.KEYS, "train.steps=10000000"]
        process = subprocess.Popen(self.command("run", keys), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True, cwd=self.folder, preexec_fn=without_override)
        self.wait_for_steps(process, "run", 6)
        self.checkpoints.chmod(0o555)
        self.addCleanup(self.checkpoints.chmod, 0o755)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3, errors)
        self.assertRegex(errors, rf"error: .*{self.checkpoints}.*Permission denied")
        newest = self.steps("run")[-1]
        self.checkpoints.chmod(0o755)
        last = newest + 3
        keys = [*self.KEYS, f"train.steps={last}"]
        self.assertIn(f"after step {newest}", self.train("run", keys, ["--allow-change", "train.steps"]).stderr)
        shutil.rmtree(self.folder / "straight")
        self.train("straight", keys)
        self.assertEqual(self.metrics("run"), self.metrics("straight"))
        self.assertTrue(self.diff("run", "straight"))

    def test_a_file_where_the_folder_should_be(self):
        self.begin()
        self.checkpoints.rename(self.folder / "kept")
        self.checkpoints.write_text("not a folder")
        result = self.train("run", self.KEYS, expect=3)
        self.assertRegex(result.stderr, rf"error: .*{self.checkpoints}.*Not a directory")
        self.assertEqual(self.checkpoints.read_text(), "not a folder")
        self.checkpoints.unlink()
        (self.folder / "kept").rename(self.checkpoints)
        self.check_goes_on()


class MountedDisk(DiskCase):
    """In a mount namespace of its own, which the test's command line makes."""

    def mount(self, *arguments):
        subprocess.run(["mount", *arguments, self.checkpoints], check=True)
        self.addCleanup(subprocess.run, ["umount", self.checkpoints], check=True)

    def test_a_full_disk(self):
        for rest in (0, 50_000, 0.5, 0.95):
            with self.subTest(rest=rest):
                self.setUp()
                self.begin()
                kept = self.folder / "kept"
                shutil.copytree(self.checkpoints, kept)
                need = sum(p.stat().st_size for p in kept.glob("*/*"))
                self.mount("-t", "tmpfs", "-o", "size=64m", "tmpfs")
                shutil.copytree(kept, self.checkpoints, dirs_exist_ok=True)
                leave = int(rest * need) if isinstance(rest, float) else rest
                filler = self.checkpoints / "filler"
                with filler.open("wb") as file:
                    file.write(b"x" * (os.statvfs(self.checkpoints).f_bavail * 4096 - leave))
                error = self.check_refused("are free in", left=("filler", "step_00000004"))
                self.assertIn("step 8", error)
                filler.unlink()
                self.check_goes_on()

    def test_a_read_only_mount(self):
        self.begin()
        self.mount("--bind", self.checkpoints)
        subprocess.run(["mount", "-o", "remount,bind,ro", self.checkpoints], check=True)
        self.check_refused("Read-only file system")
        subprocess.run(["mount", "-o", "remount,bind,rw", self.checkpoints], check=True)
        self.check_goes_on()


class OffloadCase(RunCase):
    """Activations that leave memory for a file during the step."""
    KEYS = ["model.num_hidden_layers=4", "activation_checkpointing.offload=true"]

    def setUp(self):
        super().setUp()
        self.store = self.folder / "store"
        self.store.mkdir()
        self.keys = [*self.KEYS, f"activation_checkpointing.offload_dir={self.store}"]


class Offload(OffloadCase):
    def test_the_run_is_the_same_in_less_memory(self):
        for keys in ([], ["parallel.pp=2", "parallel.schedule=zb_h1", "activation_checkpointing.mode=stage"]):
            with self.subTest(keys=keys):
                shutil.rmtree(self.folder / "plain", ignore_errors=True)
                shutil.rmtree(self.folder / "away", ignore_errors=True)
                self.train("plain", [self.KEYS[0], *keys])
                self.train("away", [*self.keys, *keys])
                self.assertEqual(self.metrics("away"), self.metrics("plain"))
                self.assertTrue(self.diff("away", "plain"))
                self.assertEqual(list(self.store.iterdir()), [])
        self.assertLess(self.peak("away", self.keys), self.peak("plain", self.KEYS[:1]))

    def peak(self, output, keys):
        """Of a whole run on one rank, which is what --check says."""
        keys = [*keys, "checkpoint.interval=0", "train.eval_interval=0"]
        shutil.rmtree(self.folder / output)
        self.train(output, keys)
        measured = json.loads((self.folder / output / "metrics.jsonl").read_text().splitlines()[-1])["peak_memory_bytes"]
        planned = json.loads(self.train(output, keys, ["--check", "--json"]).stdout)["memory_bytes"]
        self.assertEqual(planned["peak"], measured)
        self.assertEqual(planned["offloaded_in_a_step"] > 0, len(keys) > 3)
        return measured

    def test_check_and_schedule_say_what_leaves(self):
        self.assertRegex(self.train("run", self.keys, ["--check"]).stdout, r"(?m)^offload +[0-9.]+ .iB of activations")
        printed = self.train("run", self.keys, ["--print", "schedule"]).stdout
        self.assertRegex(printed, r"(?m)^# offload, of units: at most [0-9.]+ .iB")
        short = [*self.keys, "model.num_hidden_layers=1"]  # two pieces of work, the head's, behind the block
        self.assertRegex(self.train("run", short, ["--check"]).stdout, r"(?m)^offload +nothing leaves")
        self.assertNotIn("offload", self.train("run", arguments=["--check"]).stdout)

    def test_a_killed_run_leaves_no_file(self):
        process = subprocess.Popen(self.command("run", [*self.keys, "train.steps=10000000"]), cwd=self.folder,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_for_steps(process, "run", 3)
        process.kill()
        self.assertEqual(process.wait(timeout=60), -signal.SIGKILL)
        self.assertEqual(list(self.store.iterdir()), [])

    def test_a_folder_that_is_missing(self):
        self.store.rmdir()
        for keys in ([], ["parallel.pp=2"]):
            result = self.train("run", [*self.keys, *keys, "train.gradient_accumulation_steps=8"], expect=3)
            self.assertRegex(result.stderr, rf"error: .*{self.store} .*offload_dir.*No such file")

    def test_a_file_limit(self):
        result = self.train("run", [*self.keys, "checkpoint.interval=0"], expect=3, prepare=with_file_limit(20_000))
        self.assertRegex(result.stderr, rf"error: cannot write \d+ bytes of activations .*{self.store} .*File too large")

    def test_a_step_is_traced(self):
        self.train("run", [*self.keys, "logging.trace=[2]", "train.steps=2"])
        events = json.loads((self.folder / "run/trace/step_00000002.json").read_text())["traceEvents"]
        names = [e["name"] for e in events if e["ph"] == "X" and e["cat"] == "communication"]
        for name in ("0O0.1", "0L0.1"):
            self.assertIn(name, names)


class MountedOffload(OffloadCase):
    """In a mount namespace of its own, which the test's command line makes."""

    def test_a_full_disk(self):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", self.store], check=True)
        self.addCleanup(subprocess.run, ["umount", self.store], check=True)
        result = self.train("run", [*self.keys, "checkpoint.interval=0"], expect=3)
        self.assertRegex(result.stderr, rf"error: cannot write .*{self.store} .*No space left on device")


class ExitCodes(RunCase):
    def test_faults_of_the_config_write_nothing(self):
        for key in ("train.stepz=3", "train.steps=\"3\"", "train.steps=-1", "model.num_attention_heads=5",
                    "parallel.tp=3", "parallel.ep=2", "nothing.at_all=1"):
            result = self.train("run", [key], expect=2)
            self.assertRegex(result.stderr, r"^error: ")
        self.assertFalse((self.folder / "run").exists())

    def test_resume_policies(self):
        self.train("run", arguments=["--resume", "required"], expect=3)
        self.train("run", ["train.steps=1"])
        self.train("run", arguments=["--resume", "none"], expect=2)
        self.train("other", ["train.steps=2"], ["--resume", str(self.folder / "run")])
        self.assertEqual([line["step"] for line in self.metrics("other")], [2])
        self.train("run", arguments=["--resume", str(self.folder / "nowhere")], expect=3)

    def test_missing_data_is_a_data_error(self):
        result = self.train("run", ['data.sources=[{path="/nowhere/at/all"}]'], expect=3)
        self.assertIn("/nowhere/at/all", result.stderr)

    def test_numbers_that_explode_stop_with_a_name(self):
        keys = ["optimizer.type=sgd", "optimizer.lr=1e6", "lr_schedule.warmup_steps=0", "train.grad_clip=0"]
        result = self.train("run", keys, expect=4)
        self.assertRegex(result.stderr, r"step \d+: the gradient of \S+ .*is not finite")

    def test_a_scale_that_collapses_names_the_parameter(self):
        keys = ["precision.compute=fp16", "optimizer.lr=1e6", "lr_schedule.warmup_steps=0",
                "precision.loss_scale={type=\"dynamic\",initial=8,min=2}"]
        result = self.train("run", keys, expect=4)
        self.assertIn("precision.loss_scale.min", result.stderr)
        self.assertRegex(result.stderr, r"the gradient of (blocks|embedding|final|output)")

    def test_too_many_thread_ranks_need_leave(self):
        result = self.train("run", [f"parallel.dp={4 * (os.cpu_count() or 1) + 1}"], expect=2)
        self.assertIn("--threads-anyway", result.stderr)


class Signals(RunCase):
    def check(self, number, launcher=()):
        random.seed(number)
        keys = ["train.steps=150", "lr_schedule.decay_steps=150"]
        self.train("straight", keys)
        stops = 0
        for attempt in range(60):
            process = subprocess.Popen(self.command("run", keys), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       text=True, cwd=self.folder)
            # Some signals come while the program starts, the others while steps are made: how many steps a machine
            # makes in a given time is unknown, so the run's own progress is what is waited for.
            if attempt % 3 == 1:
                time.sleep(random.uniform(0.0, 0.05))
            else:
                self.wait_for_steps(process, "run", random.randint(1, 20))
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
            # Before the handlers are in place a signal ends the program as usual.
            self.assertIn(process.returncode, (0, 75, -number), errors)
            stops += process.returncode == 75
            if process.returncode == 0:
                break
        else:
            self.fail("the run did not come to its end")
        self.assertGreater(stops, 0)
        self.assertEqual(self.metrics("run"), self.metrics("straight"))
        self.assertTrue(self.diff("run", "straight"))

    def test_term_saves_and_ends_with_75(self):
        self.check(signal.SIGTERM)

    def test_usr1_saves_and_ends_with_75(self):
        self.check(signal.SIGUSR1)


class Kill(RunCase):
    KILLS = 50

    def test_fifty_kills_lose_nothing(self):
        """kill -9 at random moments of a run that saves after every step: each restart goes on from a whole one."""
        random.seed(8)
        # More steps than any machine makes between fifty kills.
        keys = ["train.steps=10000000", "lr_schedule.decay_steps=400", "checkpoint.interval=1",
                "train.eval_interval=0", "checkpoint.keep_last=2", "model.num_hidden_layers=1"]
        kills, reached = 0, -1
        while kills < self.KILLS:
            process = subprocess.Popen(self.command("run", keys), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       text=True, cwd=self.folder)
            time.sleep(random.uniform(0.02, 0.5))
            process.kill()
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, -signal.SIGKILL, errors)
            kills += 1
            steps = self.steps("run") if (self.folder / "run/checkpoints").exists() else []
            if steps:
                self.assertGreaterEqual(steps[-1], reached, "a finished checkpoint is gone")
                reached = steps[-1]
                verified = subprocess.run([BIN / "tessera", "checkpoint", "verify",
                                           self.folder / f"run/checkpoints/step_{reached:08}"], capture_output=True,
                                          text=True, timeout=60)
                self.assertEqual(verified.returncode, 0, verified.stderr)
        self.assertGreater(reached, 0)
        last = reached + 3
        keys[0] = f"train.steps={last}"
        self.train("run", keys, ["--allow-change", "train.steps"])
        self.train("straight", keys)
        self.assertEqual(self.metrics("run"), self.metrics("straight"))
        self.assertTrue(self.diff("run", "straight"))


class Tools(RunCase):
    def test_a_dump_holds_the_step(self):
        import h5py  # registered only where it is there
        import numpy
        self.train("run", ["debug.dump_steps=[1,3]", "train.steps=3", "parallel.dp=2"])
        self.assertEqual(sorted(p.name for p in (self.folder / "run/debug").iterdir()),
                         ["step_00000001.h5", "step_00000003.h5"])
        with h5py.File(self.folder / "run/debug/step_00000001.h5") as dump:
            for name in ("tokens", "targets", "loss_mask", "positions", "document_ids"):
                self.assertEqual(dump[name].shape, (8, 64), name)
            self.assertEqual(dump["tokens"].dtype, numpy.int64)
            self.assertEqual(dump["loss_mask"].dtype, numpy.uint8)
            self.assertEqual(dump["parameters/embedding.token.weight"].shape, (1003, 64))
            gradients = dump["gradients"]
            self.assertEqual(set(gradients), set(dump["parameters"]))
            norm = numpy.sqrt(sum(float((gradients[n][:].astype("f8") ** 2).sum()) for n in gradients))
            line = self.metrics("run")[0]
            self.assertAlmostEqual(norm, line["grad_norm"], delta=1e-6 * norm)
            self.assertEqual(float(dump["loss"][0]), line["loss"])
            self.assertEqual(int(dump["loss_mask"][:].sum()), line["tokens"])

    def test_generation_is_a_function_of_the_seed(self):
        self.train("run", ["train.steps=2"])

        def generate(*arguments):
            result = subprocess.run([BIN / "tessera", "generate", "--checkpoint", self.folder / "run", "--prompt", "ab",
                                     "--max-tokens", "90", "--json", *arguments], capture_output=True, text=True,
                                    timeout=60, cwd="/")
            self.assertEqual(result.returncode, 0, result.stderr)
            # The fixture's vocabulary is larger than the tokenizer's: ids without text are never drawn.
            generated = json.loads(result.stdout)
            self.assertLess(max(generated["tokens"], default=0), 257)
            return generated["tokens"], generated["text"]

        self.assertEqual(generate("--seed", "3"), generate("--seed", "3"))
        self.assertNotEqual(generate("--seed", "3"), generate("--seed", "4"))

    def test_printed_learning_rates_are_those_of_the_run(self):
        printed = self.train("run", arguments=["--print", "schedule"]).stdout
        rates = [line.split()[1] for line in printed.split("# learning rate")[1].splitlines()[1:]]
        self.train("run")
        self.assertEqual([float(rate) for rate in rates], [line["lr"] for line in self.metrics("run")])

    def test_a_printed_schedule_can_be_edited_and_fed_back(self):
        keys = ["parallel.pp=2", "parallel.schedule=auto"]
        printed = self.train("run", keys, ["--print", "schedule"]).stdout
        (self.folder / "order.txt").write_text(printed)
        edited = self.train("run", [*keys, "parallel.schedule=./order.txt"], ["--print", "schedule"]).stdout

        def lists(text):
            return [line for line in text.split("# learning rate")[0].splitlines() if not line.startswith("#")]

        self.assertEqual(lists(edited), lists(printed))
        (self.folder / "order.txt").write_text(printed.replace("0F1 ", "", 1))
        result = self.train("run", [*keys, "parallel.schedule=./order.txt"], expect=2)
        self.assertRegex(result.stderr, r"order\.txt:\d+:\d+: the schedule is not valid: rank ")
        self.assertFalse((self.folder / "run").exists())

    def test_check_writes_nothing(self):
        self.train("run", arguments=["--check"])
        facts = json.loads(self.train("run", arguments=["--check", "--json", "--ranks", "4"]).stdout)
        self.assertIsInstance(facts, dict)
        self.assertFalse((self.folder / "run").exists())


class TraceCase(RunCase):
    """Traces and the summary of time, read here with another reader and counted again."""
    KEYS = ["train.steps=3", "train.eval_interval=0", "logging.trace=[1,2,3]", "parallel.schedule=zb_h1"]

    def events(self, step, output="run"):
        return json.loads((self.folder / output / f"trace/step_{step:08}.json").read_text())["traceEvents"]

    def check_step(self, step, ranks, stages):
        events = self.events(step)
        names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        rows = {}
        for e in events:
            if e["ph"] == "X":
                self.assertGreaterEqual(e["ts"], 0)
                self.assertGreaterEqual(e["dur"], 0)
                rows.setdefault((e["pid"], e["tid"]), []).append(e)
        self.assertEqual({pid for pid, _ in rows}, set(range(1, ranks + 1)))
        # Perfetto would draw rows of one number as one, whatever their process.
        self.assertEqual(len({tid for _, tid in rows}), len(rows))
        for row, spans in rows.items():
            spans.sort(key=lambda e: (e["ts"], -e["dur"]))
            # Spans of a row lie apart or within each other.
            open_ends = []
            for e in spans:
                while open_ends and open_ends[-1] <= e["ts"] + 1e-3:
                    open_ends.pop()
                if open_ends:
                    self.assertLessEqual(e["ts"] + e["dur"], open_ends[-1] + 1e-3, (row, e))
                open_ends.append(e["ts"] + e["dur"])
            if names[row] == "compute":
                self.check_work(spans, stages)

    def check_work(self, spans, stages):
        """Each unit runs F, I, W of each of the 8 micro-batches once, in an order that works."""
        done = {}
        for e in spans:
            if e["cat"] != "compute":
                continue
            kind = e["name"].lstrip("0123456789")[0]
            cell = (e["args"]["stage"], e["args"]["unit"], e["args"]["microbatch"])
            done.setdefault(cell, []).append(kind)
        self.assertTrue(done)
        self.assertEqual({"".join(kinds) for kinds in done.values()}, {"FIW"})
        self.assertEqual(len({m for _, _, m in done}), 8)
        self.assertLessEqual({stage for stage, _, _ in done}, set(range(stages)))

    def check_messages(self, step, pipelines):
        """Every message is drawn at both its ends, and is not sent after it has come."""
        ends = {}
        for e in self.events(step):
            if e["ph"] == "X" and e["cat"] == "communication" and e["name"][1:3] in ("SA", "RA"):
                stage, m = e["name"].replace("SA", " ").replace("RA", " ").split()
                sends = "SA" in e["name"]
                cell = ((e["pid"] - 1) % pipelines, int(stage) + sends, m)  # ranks vary fastest within a stage
                ends.setdefault(cell, {})["SA" if sends else "RA"] = e
        self.assertEqual(len(ends), 8 * pipelines)
        for message in ends.values():
            self.assertLess(message["SA"]["ts"], message["RA"]["ts"] + message["RA"]["dur"])

    def check_summary(self, result, ranks):
        log = result.stderr
        total, shares = re.search(rf"time: ([0-9.]+) s of {ranks} ranks?: (.*)", log).groups()
        seconds = {name: float(mean) for name, mean in re.findall(r"([a-z][a-z ]*) [0-9.]+ % \(([0-9.]+) s", shares)}
        self.assertEqual(len(seconds), 8)
        self.assertAlmostEqual(sum(seconds.values()), float(total), delta=2e-3)
        # Work happens in steps alone, and all of them are traced: counted again from the traces.
        work = 0
        for step in (1, 2, 3):
            spans = [e for e in self.events(step) if e["ph"] == "X" and e["tid"] == e["pid"]]
            for e in spans:
                if e["cat"] == "compute":
                    inner = [o for o in spans if o["pid"] == e["pid"] and o["cat"] == "communication"
                             and e["ts"] <= o["ts"] and o["ts"] + o["dur"] <= e["ts"] + e["dur"] + 1e-3]
                    work += e["dur"] - sum(o["dur"] for o in inner)
        self.assertAlmostEqual(seconds["compute"] * ranks, work / 1e6, delta=1e-3 * ranks + 1e-3 * work / 1e6)
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        kept, outside = map(float, re.search(r"goodput .*: 3 steps that count took ([0-9.]+) s, .*all else of this "
                                             r"process ([0-9.]+) s", log).groups())
        self.assertAlmostEqual(kept, sum(line["step_seconds"] for line in lines), delta=1e-3)
        share = float(re.search(r"goodput ([0-9.]+) %", log).group(1))
        rounding = 0.01 + 100 * 1e-3 / (kept + outside)  # seconds are printed with three digits
        self.assertAlmostEqual(share, 100 * kept / (kept + outside), delta=rounding)

    def check_run(self, keys, ranks, stages, launcher=()):
        result = self.train("run", [*self.KEYS, *keys], launcher=launcher)
        for step in (1, 2, 3):
            self.check_step(step, ranks, stages)
            svg = ElementTree.parse(self.folder / f"run/trace/step_{step:08}.svg")
            boxes = [e for e in svg.iter() if e.get("class") == "action"]
            self.assertEqual(len(boxes), 2 * stages * 8 * 3)
        if stages > 1:
            self.check_messages(2, ranks // stages)
        self.assertIn("overlap", result.stderr)
        self.check_summary(result, ranks)


class Trace(TraceCase):
    def test_a_pipeline_of_threads(self):
        self.check_run(["parallel.pp=2"], 2, 2)

    def test_beside_other_axes(self):
        self.check_run(["parallel.pp=2", "parallel.dp=2", "parallel.zero_stage=3", "train.global_batch_size=16"], 4, 2)

    def test_two_that_run_together_take_turns(self):
        """Each goes on where the other waits for its tensor ranks; what is planned has all their actions too."""
        self.train("run", [*self.KEYS, "parallel.schedule=dualpipe_v", "parallel.pp=2", "parallel.tp=2",
                           "model.num_hidden_layers=4"])
        spans = sorted((e for e in self.events(2) if e["ph"] == "X" and e["tid"] == e["pid"] == 1
                        and e["cat"] == "compute"), key=lambda e: e["ts"])
        turns = "".join("b" if e["name"].startswith("+") else "f" if "F" in e["name"] else "." for e in spans)
        self.assertIn("fbfbfb", turns)
        self.assertLess(len({e["name"] for e in spans}), len(spans))
        svg = ElementTree.parse(self.folder / "run/trace/step_00000002.svg")
        drawn = collections.Counter(e.text.split(":")[0] for e in svg.iter() if e.tag.endswith("title"))
        self.assertEqual({drawn[f"{stage}F{m}"] for stage in range(4) for m in range(8)}, {2})  # planned, measured

    def test_sleeps_take_no_less_than_the_simulator_says(self):
        """How much more they take is a benchmark's matter."""
        for more in ([], ["--recompute"]):
            result = subprocess.run([BIN / "tessera", "bench", "schedule", "--ranks", "3", "--microbatches", "6",
                                     "--forward-ms", "0.4", "--input-ms", "0.5", "--weight-ms", "0.2", "--json", *more],
                                    capture_output=True, text=True, timeout=120)
            self.assertEqual(result.returncode, 0, result.stderr)
            timings = json.loads(result.stdout)["schedules"]
            self.assertEqual(len(timings), 12)
            for timing in timings:
                self.assertGreaterEqual(timing["measured_seconds"], timing["simulated_seconds"] * 0.9999, timing)

    def test_a_peak_that_steps_beat_is_named_once(self):
        keys = ["train.steps=3", "train.eval_interval=0"]
        self.assertNotIn("more than the peak", self.train("run", [*keys, "run.peak_flops=1e18"]).stderr)
        log = self.train("low", [*keys, "run.peak_flops=1e3"]).stderr
        self.assertEqual(log.count("more than the peak"), 1)
        self.assertRegex(log, r"warn.* step 1 reached [0-9.]+ GFLOP/s, more than the peak of 1e-06: MFU is too high "
                              r"in this run, as run.peak_flops is too low")

    def test_only_the_named_steps_are_traced(self):
        self.train("run", ["train.steps=3", "logging.trace=[2]", "train.micro_batch_size=8", "checkpoint.interval=2"])
        self.assertEqual(sorted(path.name for path in (self.folder / "run/trace").iterdir()),
                         ["step_00000002.json", "step_00000002.svg"])
        kinds = {e["cat"] for e in self.events(2) if e["ph"] == "X"}
        self.assertLessEqual({"compute", "data", "update", "checkpoint"}, kinds)


class MpiTrace(TraceCase):
    def test_processes_are_traced_on_one_clock(self):
        self.check_run(["parallel.pp=2"], 2, 2, launcher=(*Mpi.LAUNCH, "2"))


class Mpi(RunCase):
    LAUNCH = ("mpirun", "--oversubscribe", "-n")

    def test_processes_and_threads_give_the_same_bits(self):
        for ranks in (2, 3):
            self.train(f"threads{ranks}", [f"parallel.dp={ranks}"])
            self.train(f"processes{ranks}", launcher=(*self.LAUNCH, str(ranks)))
            self.assertTrue(self.diff(f"threads{ranks}", f"processes{ranks}"))
            self.assertEqual(self.metrics(f"threads{ranks}"), self.metrics(f"processes{ranks}"))

    def test_two_copies_of_a_schedule_that_differ_are_refused(self):
        keys = ["parallel.pp=2", "train.micro_batch_size=8"]
        orders = {"a.txt": "0F0 0B0\n1F0 1B0\n", "b.txt": "0F0 0B0\n1F0 1I0 1W0\n"}
        for name, text in orders.items():
            (self.folder / name).write_text(text)
        ranks = [["-n", "1", *self.command("run", [*keys, f"parallel.schedule=./{name}"])] for name in orders]
        result = subprocess.run(["mpirun", "--oversubscribe", *ranks[0], ":", *ranks[1]], capture_output=True,
                                text=True, cwd=self.folder, timeout=120, env={**os.environ, **MPI_ENVIRONMENT})
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("b.txt", result.stderr)
        self.assertFalse((self.folder / "run").exists())

    def test_a_mesh_that_does_not_fit_the_launch_is_refused(self):
        result = self.train("run", ["parallel.dp=3"], expect=2, launcher=(*self.LAUNCH, "2"))
        self.assertIn("dp", result.stderr)
        self.assertFalse((self.folder / "run").exists())

    def on_nodes(self, output, keys=(), expect=0):
        """Two processes whose checkpoints lie on a disk each, under one path in the config."""
        command = self.command(output, ["checkpoint.shared_fs=false", "checkpoint.interval=4", "checkpoint.keep_last=2",
                                        'checkpoint.dir="${DISK}/checkpoints"', *keys])
        wrapper = f'DISK="{self.folder}/node$OMPI_COMM_WORLD_RANK" exec "$@"'
        result = subprocess.run([*self.LAUNCH, "2", "sh", "-c", wrapper, "node", *command], capture_output=True,
                                text=True, cwd=self.folder, timeout=120, env={**os.environ, **MPI_ENVIRONMENT})
        self.assertEqual(result.returncode, expect, result.stderr)
        return result.stderr

    def on_node(self, node):
        return sorted(p.name for p in (self.folder / f"node{node}/checkpoints").iterdir())

    def test_nodes_with_a_disk_each(self):
        self.train("straight", ["parallel.dp=2"])
        self.on_nodes("run")
        for node in (0, 1):
            self.assertEqual(self.on_node(node), ["step_00000008", "step_00000012"])
            files = {p.name for p in (self.folder / f"node{node}/checkpoints/step_00000012").iterdir()}
            self.assertEqual(files, {"index.h5", "manifest.json", f"part_0000{node}.h5"})

        # One node lost its newest checkpoint: both go on from the one before, and the newer one is set aside.
        shutil.rmtree(self.folder / "node0/checkpoints/step_00000012")
        self.assertIn("after step 8", self.on_nodes("run"))
        for node in (0, 1):
            aside = [name for name in self.on_node(node) if name.startswith("aside_step_00000012")]
            self.assertEqual(len(aside), node)
            self.assertEqual(sorted(set(self.on_node(node)) - set(aside)), ["step_00000008", "step_00000012"])
        self.assertEqual(self.metrics("run"), self.metrics("straight"))

        # A program on one machine names the part that is not there, and reads the checkpoint once it is.
        gathered = self.folder / "node0/checkpoints"
        look = [BIN / "tessera", "generate", "--checkpoint", gathered / "step_00000012", "--prompt", "a",
                "--max-tokens", "2"]
        result = subprocess.run(look, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("step_00000012/part_00001.h5", result.stderr)
        shutil.copy(self.folder / "node1/checkpoints/step_00000012/part_00001.h5", gathered / "step_00000012")
        self.assertEqual(subprocess.run(look, capture_output=True, timeout=60).returncode, 0)
        (self.folder / "run/checkpoints").symlink_to(gathered)
        self.assertTrue(self.diff("run", "straight"))

    def test_disks_apart_need_the_key(self):
        errors = self.on_nodes("run", ["checkpoint.shared_fs=true"], expect=3)
        self.assertIn("checkpoint.shared_fs", errors)

    def test_bench_comm_runs_over_the_launched_ranks(self):
        def bench(*arguments):
            return subprocess.run([*self.LAUNCH, "3", BIN / "tessera", "bench", "comm", *arguments], text=True,
                                  capture_output=True, timeout=120, env={**os.environ, **MPI_ENVIRONMENT})
        results = json.loads(bench("--sizes", "4012", "--repeats", "1", "--json").stdout)["results"]
        self.assertEqual([entry["ranks"] for entry in results], [3] * 5)
        self.assertEqual({entry["algorithm"]: entry["busiest_rank_bytes"] for entry in results}["parameter_server"],
                         2 * 4012)
        refused = bench("--ranks", "3")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--ranks and --nodes are for thread ranks", refused.stderr)

    # More steps than any machine makes before the test does what it is about.
    LONG = ["train.steps=10000000", "lr_schedule.decay_steps=100000", "checkpoint.interval=5"]

    @contextlib.contextmanager
    def long_run(self, output="run", interval=5):
        """A run of two processes that has saved once: (mpirun, the ranks' process ids in rank order)."""
        keys = [*self.LONG, f"checkpoint.interval={interval}"]
        process = subprocess.Popen([*self.LAUNCH, "2", *self.command(output, keys)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                   env={**os.environ, **MPI_ENVIRONMENT}, start_new_session=True)
        try:
            deadline = time.time() + 60
            while not (self.folder / output / f"checkpoints/step_{interval:08}").exists():
                self.assertLess(time.time(), deadline)
                time.sleep(0.05)
            children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout

            def rank_of(pid):
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                return next(v for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK="))

            yield process, sorted(map(int, children.split()), key=rank_of)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def check_goes_on(self, output="run"):
        newest = self.steps(output)[-1]
        self.train(output, [*self.LONG[1:], f"train.steps={newest + 2}"], ["--allow-change", "train.steps"],
                   launcher=(*self.LAUNCH, "2"))

    def test_a_killed_rank_ends_the_job(self):
        with self.long_run() as (process, ranks):
            os.kill(ranks[-1], signal.SIGKILL)
            self.assertNotEqual(process.wait(timeout=15), 0)
            alive = subprocess.run(["pgrep", "-f", str(self.folder / "run")], capture_output=True, text=True).stdout
            self.assertEqual(alive, "")
        self.check_goes_on()

    def test_a_signal_to_one_rank_stops_all_after_a_checkpoint(self):
        for rank in (0, 1):
            output = f"run{rank}"
            with self.long_run(output) as (process, ranks):
                os.kill(ranks[rank], signal.SIGTERM)
                _, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 75, errors)
            self.assertEqual(self.steps(output)[-1], self.metrics(output)[-1]["step"])
            self.check_goes_on(output)

    def test_a_signal_to_a_rank_whose_partner_is_stuck_ends_it(self):
        """comm.timeout_s is 600: only the signal can end the wait in the time of this test. A save may take longer
        than 5 s, so it is waited for; here the next one is far."""
        for stuck in (0, 1):
            output = f"run{stuck}"
            with self.long_run(output, interval=300) as (process, ranks):
                os.kill(ranks[stuck], signal.SIGSTOP)
                os.kill(ranks[1 - stuck], signal.SIGTERM)
                _, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 5, errors)
                self.assertRegex(errors, rf"error: rank {1 - stuck}: .* waited 5 s after the signal to stop for .*"
                                         rf"(rank {stuck} has not arrived|it is not finished)")
            self.check_goes_on(output)


class BenchComm(unittest.TestCase):
    def bench(self, *arguments, expect=0):
        result = subprocess.run([BIN / "tessera", "bench", "comm", *arguments], capture_output=True, text=True,
                                timeout=60)
        self.assertEqual(result.returncode, expect, result.stderr)
        return result

    def results(self, *arguments):
        results = json.loads(self.bench(*arguments, "--repeats", "1", "--json").stdout)["results"]
        return {(entry["ranks"], entry["bytes"], entry["algorithm"]): entry for entry in results}

    def test_counts_the_bytes_of_the_formulas(self):
        results = self.results("--ranks", "2,5", "--sizes", "4KB,40KB")
        self.assertEqual(len(results), 2 * 2 * 5)
        for (ranks, size, algorithm), entry in results.items():
            factor = {"parameter_server": ranks - 1, "tree": 1 if ranks == 2 else 2}.get(algorithm,
                                                                                         2 * (ranks - 1) / ranks)
            self.assertAlmostEqual(entry["formula_bytes"], factor * size)
            # Chunks differ by an element where they do not divide: twice for the owner's share of each other rank.
            self.assertLessEqual(abs(entry["busiest_rank_bytes"] - factor * size), 4 * 2 * ranks)
            self.assertEqual(entry["chosen_by_auto"], algorithm == "direct")
            self.assertEqual(entry["busiest_node_bytes"], 0)
            self.assertGreater(entry["fastest_seconds"], 0)
            self.assertGreaterEqual(entry["seconds"], entry["fastest_seconds"])
        self.assertEqual(results[5, 40960, "ring"]["hops"], 8)
        self.assertEqual(results[5, 40960, "tree"]["hops"], 4)

    def test_nodes_that_thread_ranks_stand_for(self):
        results = self.results("--ranks", "4", "--nodes", "2", "--sizes", "1MB", "--link-mbit", "100")
        entry = results[4, 1 << 20, "hierarchical"]
        self.assertTrue(entry["chosen_by_auto"])
        self.assertEqual((entry["busiest_node_bytes"], entry["hops"]), (1 << 20, 4))
        self.assertAlmostEqual(entry["link_seconds"], (1 << 20) * 8 / 1e8)
        self.assertEqual(results[4, 1 << 20, "direct"]["busiest_node_bytes"], 2 << 20)

    def test_prints_a_table(self):
        lines = self.bench("--ranks", "3", "--sizes", "1MB", "--algorithm", "ring,direct").stdout.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertIn("direct *", lines[1])
        self.assertIn("1.333 D", lines[2])

    def test_bad_input_is_refused(self):
        for arguments, text in ((["--sizes", "6"], "no whole number of fp32 values"),
                                (["--sizes", "many"], "--sizes"),
                                (["--algorithm", "rign"], "rign"),
                                (["--ranks", "1"], "--ranks"),
                                (["--ranks", "17"], "--ranks"),
                                (["--ranks", "3", "--nodes", "2"], "3 ranks cannot lie on 2 equal nodes"),
                                (["--repeats", "0"], "--repeats"),
                                (["--frobnicate"], "tessera bench comm --help")):
            self.assertIn(text, self.bench(*arguments, expect=2).stderr)
        self.assertIn("examples:", self.bench("--help").stdout)


class Hosts(RunCase):
    """Hosts that are network namespaces, joined by links of 200 Mbit/s."""
    LAUNCH = (sys.executable, str(SOURCE / "scripts/shaped_hosts.py"), "--mbit", "200")

    def test_two_hosts_train_as_one(self):
        for name, keys in (("plain", []), ("sharded", ["parallel.zero_stage=3"]), ("ring", ["parallel.sp=2"])):
            mesh = [] if name == "ring" else ["parallel.dp=2"]
            self.train(f"{name}1", [*keys, *mesh])
            self.train(f"{name}2", [*keys, *mesh], launcher=self.LAUNCH)
            self.assertEqual(self.metrics(f"{name}2"), self.metrics(f"{name}1"))
            self.assertTrue(self.diff(f"{name}1", f"{name}2"))

    def test_two_ranks_on_each_host_sum_by_node(self):
        # Four terms in another order: rounding only.
        self.train("threads", ["parallel.dp=4", "train.steps=3"])
        self.train("hosts", ["parallel.dp=4", "train.steps=3"], launcher=(*self.LAUNCH, "--ranks-per-host", "2"))
        for one, two in zip(self.metrics("threads"), self.metrics("hosts")):
            self.assertAlmostEqual(one["loss"], two["loss"], delta=1e-5 * one["loss"])
            self.assertAlmostEqual(one["grad_norm"], two["grad_norm"], delta=1e-6 * one["grad_norm"])

    def test_bench_comm_knows_the_nodes(self):
        result = subprocess.run([*self.LAUNCH, "--ranks-per-host", "2", BIN / "tessera", "bench", "comm", "--json",
                                 "--sizes", "1MB", "--repeats", "1"], capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        entries = {entry["algorithm"]: entry for entry in json.loads(result.stdout)["results"]}
        self.assertTrue(entries["hierarchical"]["chosen_by_auto"])
        self.assertEqual(entries["hierarchical"]["busiest_node_bytes"], 1 << 20)

    def test_nothing_is_left_behind(self):
        def interfaces():
            return sorted(os.listdir("/sys/class/net"))
        before = interfaces()
        job = subprocess.Popen([*self.LAUNCH, "sh", "-c", "echo $$; exec sleep 600"], stdout=subprocess.PIPE, text=True)
        for _ in range(2):
            job.stdout.readline()
        job.kill()
        job.wait()
        # The kernel ends what was inside when the first process of the namespace is gone.
        self.assertEqual(job.stdout.read(), "")
        job.stdout.close()
        self.assertEqual(interfaces(), before)


class Compare(RunCase):
    """`tessera compare`: exit codes, the report, and a big model made small."""

    def compare(self, arguments, expect, config=FIXTURE):
        result = subprocess.run([BIN / "tessera", "compare", "--config", config, *arguments], capture_output=True,
                                text=True, cwd=self.folder, timeout=240)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        self.assertEqual(list(self.folder.iterdir()), [], "nothing is written")
        return result

    SMALL = settings(["model.num_hidden_layers=2", "train.seq_length=17", "train.micro_batch_size=4"])

    def test_layouts_that_agree(self):
        result = self.compare([*self.SMALL, "--steps", "2", "--json", "--layout", "tp=2", "--layout",
                               "dp=2 train.micro_batch_size=2", "--layout", "dp=1"], 0)
        report = json.loads(result.stdout)
        self.assertTrue(report["agree"])
        self.assertEqual(report["reference"], "tp=2")
        self.assertEqual([entry["layout"] for entry in report["layouts"]], ["dp=2 train.micro_batch_size=2", "dp=1"])
        for entry in report["layouts"]:
            self.assertTrue(entry["initial_bitwise"])
            self.assertGreater(entry["gradient_difference"], 0, "the layouts add in another order")
            self.assertLess(entry["gradient_difference"], 1e-5)
            self.assertEqual(len(entry["by_step"]), 2)

    def test_a_layout_that_differs(self):
        arguments = [*self.SMALL, "--steps", "2", "--layout", "tp=2 optimizer.weight_decay=0.3"]
        text = self.compare(arguments, 4).stdout
        self.assertIn("DIFFERS in step 1", text)
        self.assertRegex(text, r"weight of \S+: .* apart, .* is rounding\n +looks like a fault: ")
        fault = json.loads(self.compare([*arguments, "--json"], 4).stdout)["layouts"][0]["fault"]
        self.assertEqual((fault["step"], fault["gradients"], fault["first"]["slot"]), (1, 0, "weight"))

    def test_a_big_model_made_small(self):
        big = SOURCE / "configs/gpt/gpt175b.toml"
        one_stage = "tp=2 dp=512 pp=1 schedule=1f1b virtual_stages=1"
        result = self.compare(["--shrink", "--steps", "2", "--layout", one_stage], 0, big)
        self.assertRegex(result.stdout, r"shrunk: model.hidden_size +12288 -> \d\d\n")
        self.assertRegex(result.stdout, one_stage + r" shrunk to tp=2 sp=1 dp=\d+ pp=1 .* agrees\n")
        own = self.compare(["--shrink", "--steps", "1"], 0, big).stdout
        self.assertRegex(own, r"the config's own shrunk to tp=2 sp=1 dp=\d+ pp=2 .* agrees\n")

    def test_wrong_input(self):
        for arguments, text in [
                (["--layout", "tp"], "'tp' is no key=value"),
                (["--layout", "tpp=2"], "did you mean 'tp'?"),
                (["--layout", "tp=3"], "does not divide by parallel.tp = 3"),
                (["--layout", "dp=1000"], "need --threads-anyway"),
                ([], "nothing to compare"),
                (["--layout", "dp=2", "--layout", "dp=1 train.global_batch_size=4"], "nothing to compare")]:
            self.assertIn(text, self.compare(arguments, 2).stderr)
        missing = ["--set", 'data.sources=[{path="/nowhere/x.txt"}]', "--layout", "dp=2", *self.SMALL, "--steps", "1"]
        self.assertIn("/nowhere/x.txt", self.compare(missing, 3).stderr)
        self.compare([*missing, "--synthetic"], 0)


class Report(RunCase):
    """`tessera report`: every figure, and every point of a curve, against metrics.jsonl."""

    SVG = "{http://www.w3.org/2000/svg}"
    XHTML = "{http://www.w3.org/1999/xhtml}"

    def report(self, *arguments, expect=0):
        result = subprocess.run([BIN / "tessera", "report", *arguments], capture_output=True, text=True,
                                cwd=self.folder, timeout=60)
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result

    def lines(self, run, name="metrics.jsonl"):
        path = self.folder / run / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def two_runs(self):
        self.train("slow", ["optimizer.lr=1e-3"])
        self.train("fast", ["optimizer.lr=3e-3", "train.steps=7"])
        undone = {**self.lines("fast")[-1], "step": 8, "step_seconds": 0.5}  # a step that a crash took back
        (self.folder / "fast/metrics.lost.jsonl").write_text(json.dumps(undone) + "\n")

    def expected(self, run):
        lines, lost = self.lines(run), self.lines(run, "metrics.lost.jsonl")
        losses = [line["loss"] for line in lines]
        evaluated = [line for line in lines if "eval_loss" in line]
        seconds = sum(line["step_seconds"] for line in lines)
        sources = {}
        for line in lines:
            for name, tokens in line["source_tokens"].items():
                sources[name] = {"tokens": sources.get(name, {"tokens": 0})["tokens"] + tokens,
                                 "loss": line["source_loss"][name]}
        lost_seconds = sum(line["step_seconds"] for line in lost)
        return {"run": run, "steps": len(lines), "last_step": lines[-1]["step"],
                "seen_tokens": sum(line["tokens"] for line in lines), "first_loss": losses[0],
                "last_loss": losses[-1], "lowest_loss": min(losses),
                "lowest_loss_step": lines[losses.index(min(losses))]["step"],
                "eval_loss": evaluated[-1]["eval_loss"], "eval_step": evaluated[-1]["step"], "skipped_steps": 0,
                "lost_steps": len(lost), "lost_seconds": lost_seconds,
                "peak_memory_bytes": max(line["peak_memory_bytes"] for line in lines), "sources": sources}, {
                "step_seconds": seconds, "goodput": seconds / (seconds + lost_seconds),
                "tokens_per_second": sum(line["tokens"] for line in lines) / seconds}

    def points(self, svg, curve):
        """The values of a curve by step, measured against the labels of its axes."""
        def scale(ticks, coordinate):
            marks = [(float(mark.text), float(mark.get(coordinate))) for mark in svg.iter(self.SVG + "text")
                     if mark.get("class") == ticks]
            (a, at_a), (b, at_b) = marks[0], marks[-1]
            self.assertGreater(len(marks), 1)
            return lambda place: a + (b - a) * (place - at_a) / (at_b - at_a)
        x, y = scale("x-tick", "x"), scale("y-tick", "y")
        group = next(g for g in svg.iter(self.SVG + "g") if g.get("class") == "curve"
                     and g.find(self.SVG + "title").text == curve)
        places = re.findall(r"[ML]([\d.]+) ([\d.]+)", group.find(self.SVG + "path").get("d"))
        return {round(x(float(place[0]))): y(float(place[1])) for place in places}

    def check_curve(self, svg, curve, expected):
        shown = self.points(svg, curve)
        self.assertEqual(list(shown), list(expected))
        height = max(*expected.values(), *shown.values()) or 1
        for step, value in expected.items():
            self.assertAlmostEqual(shown[step], value, delta=1e-3 * height)

    def test_every_figure_and_every_point(self):
        self.two_runs()
        runs = json.loads(self.report("slow", "fast", "--json").stdout)["runs"]
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["fast", "slow"], "no file was asked for")
        for shown, name in zip(runs, ("slow", "fast"), strict=True):
            exact, close = self.expected(name)
            self.assertEqual({key: shown[key] for key in exact}, exact)
            for key, value in close.items():
                self.assertAlmostEqual(shown[key] / value, 1, delta=1e-12)
        self.assertEqual({(d["key"], float(d["before"]), float(d["after"])) for d in runs[1]["differences"]
                          if d["key"] not in ("run.output_dir", "checkpoint.dir")},
                         {("optimizer.lr", 1e-3, 3e-3), ("train.steps", 12, 7)})
        self.assertEqual(runs[0]["differences"], [])

        self.assertEqual(self.report("slow", "fast", "--svg", "loss.svg", "--output", "both.html").stdout,
                         "both.html\nloss.svg\n")
        page = ElementTree.fromstring((self.folder / "both.html").read_text())
        charts = {svg.find(self.SVG + "title").text: svg for svg in page.iter(self.SVG + "svg")}
        self.assertEqual(set(charts), {"Loss", "Gradient norm before clipping", "Learning rate", "Throughput",
                                       "Peak memory of the largest rank", "Loss by source",
                                       "Trained tokens by source"})
        charts["file"] = ElementTree.parse(self.folder / "loss.svg").getroot()
        for run in ("slow", "fast"):
            lines = self.lines(run)
            for chart, field, unit in (("Loss", "loss", 1), ("file", "loss", 1), ("Learning rate", "lr", 1),
                                       ("Gradient norm before clipping", "grad_norm", 1),
                                       ("Throughput", "tokens_per_second", 1),
                                       ("Peak memory of the largest rank", "peak_memory_bytes", 1 << 20)):
                self.check_curve(charts[chart], run, {line["step"]: line[field] / unit for line in lines})
            (source,) = lines[0]["source_tokens"]
            self.check_curve(charts["Loss by source"], f"{source} of {run}",
                             {line["step"]: line["source_loss"][source] for line in lines})
            tokens = [line["source_tokens"][source] for line in lines]
            self.check_curve(charts["Trained tokens by source"], f"{source} of {run}",
                             {line["step"]: sum(tokens[:i + 1]) for i, line in enumerate(lines)})
            self.check_curve(charts["Loss"], run + ": evaluation",
                             {line["step"]: line["eval_loss"] for line in lines if "eval_loss" in line})
        looks = {g.get("stroke") for g in charts["file"].iter(self.SVG + "g") if g.get("class") == "curve"}
        self.assertEqual(len(looks), 2, "a colour a run")
        rows = page.findall(f".//{self.XHTML}table[@id='summary']/{self.XHTML}tr")
        cells = [cell.text for cell in rows[2]]
        exact, close = self.expected("fast")
        self.assertEqual(cells[:8], ["fast", "7", "7", str(exact["seen_tokens"]), f"{exact['first_loss']:.4f}",
                                     f"{exact['last_loss']:.4f}",
                                     f"{exact['lowest_loss']:.4f} (step {exact['lowest_loss_step']})",
                                     f"{exact['eval_loss']:.4f} (step {exact['eval_step']})"])
        self.assertEqual(cells[8:10], ["0", "1"])
        self.assertAlmostEqual(float(cells[12][:-2]), 100 * close["goodput"], delta=0.01)
        changed = page.findall(f".//{self.XHTML}table[@class='text differences']/{self.XHTML}tr")
        self.assertIn("optimizer.lr", [row[0].text for row in changed])
        configs = [pre.text for pre in page.iter(self.XHTML + "pre")]
        self.assertEqual(configs, [(self.folder / run / "config.toml").read_text() for run in ("slow", "fast")])

    def test_runs_that_are_damaged_or_go_on(self):
        self.train("run", ["train.steps=3"])
        metrics = self.folder / "run/metrics.jsonl"
        whole = metrics.read_text()
        before = self.report("run", "--json").stdout
        metrics.write_text(whole + whole.splitlines()[0][:40])  # a line in the middle of being written
        result = self.report("run", "--json")
        self.assertIn("note: run: line 4 of metrics.jsonl has no end yet", result.stderr)
        self.assertEqual({**json.loads(result.stdout)["runs"][0], "notes": []}, json.loads(before)["runs"][0])
        self.report("run", "--log")
        self.assertTrue((self.folder / "report.html").exists())
        (self.folder / "report.html").write_text("the one before")
        metrics.write_text(whole.replace('"lr":', '"lr":x', 1))
        self.assertRegex(self.report("run", expect=3).stderr, r"^error: run/metrics.jsonl:1:\d+: is no JSON")
        self.assertEqual((self.folder / "report.html").read_text(), "the one before")

    def test_wrong_input(self):
        self.train("run", ["train.steps=1"])
        self.assertIn("nowhere", self.report("run", "nowhere", expect=3).stderr)
        self.assertIn("the same run", self.report("run", "run/", expect=2).stderr)
        self.report(expect=2)
        for output in ("missing/report.html", "run"):
            self.assertIn(output, self.report("run", "--output", output, expect=3).stderr)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["run"], "nothing is left behind")


class TensorBoard(RunCase):
    """Event files hold what metrics.jsonl holds, whatever stops and starts the run."""
    KEYS = ["logging.tensorboard=true", "checkpoint.interval=4"]

    def events(self, output):
        return event_files.read_run(self.folder / output / "tensorboard")

    def expected(self, output):
        """The scalars of each step: fp32 of the numbers of metrics.jsonl."""
        steps = {}
        for line in map(json.loads, (self.folder / output / "metrics.jsonl").read_text().splitlines()):
            numbers = {}
            for name, value in line.items():
                numbers.update({f"{name}/{part}": number for part, number in value.items()}
                               if isinstance(value, dict) else {name: value})
            step = numbers.pop("step")
            steps[step] = {name: struct.unpack("<f", struct.pack("<f", value))[0]
                           for name, value in numbers.items() if isinstance(value, (int, float))}
        return steps

    def check(self, output, starts):
        """`starts`: the step that each process of the run began with, in order."""
        files = sorted((self.folder / output / "tensorboard").iterdir())
        self.assertEqual([event_files.read_file(path, cut=True)[:2] for path in files],
                         [[(0, "version"), (start, "start")] for start in starts])
        events, configs = {}, {}
        for step, values in self.events(output).items():
            configs |= {step: values.pop("config")} if "config" in values else {}
            events[step] = {tag: value for tag, value in values.items() if not isinstance(value, dict)}
        self.assertEqual(events, self.expected(output))
        self.assertEqual(set(configs), set(starts))
        self.assertEqual(configs[starts[-1]], (self.folder / output / "config.toml").read_text())

    def test_every_number_is_there(self):
        self.train("run", [*self.KEYS, "parallel.dp=2"])
        self.check("run", [1])
        values = self.events("run")[10]
        self.assertLessEqual({"loss", "grad_norm", "lr", "tokens", "seen_tokens", "tokens_per_second", "eval_loss",
                              "source_loss/corpus", "source_tokens/corpus", "peak_memory_bytes", "skipped"},
                             set(values))
        self.assertNotIn("sample_ids", values)

    def test_a_run_that_stops_and_goes_on(self):
        for steps in (3, 7, 12):
            self.train("run", [*self.KEYS, f"train.steps={steps}"])
        self.check("run", [1, 4, 8])

    def test_steps_that_a_crash_undid(self):
        self.train("run", [*self.KEYS, "train.steps=4"])
        endless = ["logging.tensorboard=true", "checkpoint.interval=0", "train.steps=10000000"]
        process = subprocess.Popen(self.command("run", endless), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   cwd=self.folder)
        self.wait_for_steps(process, "run", 6)
        process.kill()
        process.wait()
        self.assertGreater(max(self.events("run")), 6)
        self.train("run", [*self.KEYS, "train.steps=6"])
        self.check("run", [1, 5, 5])
        self.assertEqual(max(self.events("run")), 6)

    def test_single_tensors(self):
        keys = ["checkpoint.interval=4", "parallel.dp=2", "parallel.zero_stage=1"]
        watched = ["logging.per_tensor=3", "logging.tensorboard=true"]
        self.train("without", keys)
        self.train("straight", [*keys, *watched])
        for steps in (5, 12):
            self.train("run", [*keys, *watched, f"train.steps={steps}"])
        self.check("run", [1, 6])
        lines = self.metrics("run")
        self.assertEqual(lines, self.metrics("straight"))
        self.assertTrue(self.diff("run", "without"))
        subprocess.run([BIN / "tessera", "report", self.folder / "run", "--json"], check=True, capture_output=True,
                       timeout=60)
        events = self.events("run")
        for line in lines:
            values = events[line["step"]]
            figures = [line.pop(name, None) for name in ("weight_norm", "gradient_norm", "update_ratio")]
            if line["step"] % 3:
                self.assertEqual(figures, [None] * 3)
                self.assertFalse([value for value in values.values() if isinstance(value, dict)])
                continue
            weight, gradient, ratio = figures
            self.assertEqual(len(weight), 3 + 2 * 9)  # a llama: token embedding, final norm, output; its blocks
            self.assertTrue(list(weight) == list(gradient) == list(ratio))
            self.assertAlmostEqual(sum(norm ** 2 for norm in gradient.values()) ** 0.5, line["grad_norm"],
                                   delta=1e-12 * line["grad_norm"])
            self.assertTrue(all(0 < r < 0.1 for r in ratio.values()))
            for name in weight:
                for kind, norm in (("weights", weight[name]), ("gradients", gradient[name])):
                    histogram = values[f"{kind}/{name}"]
                    self.assertEqual(sum(histogram["counts"]), histogram["count"])
                    self.assertEqual(histogram["limits"], sorted(set(histogram["limits"])))
                    self.assertLess(histogram["minimum"], histogram["limits"][0])
                    self.assertEqual(histogram["maximum"], histogram["limits"][-1])
                    self.assertAlmostEqual(histogram["sum_of_squares"] ** 0.5 / norm, 1, delta=1e-12)
                    # A bucket ends a quarter of its lower end further, at most.
                    self.assertLess(histogram["sum_of_squares"], sum(
                        count * max(abs(low), abs(high)) ** 2 for low, high, count in
                        zip([histogram["minimum"], *histogram["limits"]], histogram["limits"], histogram["counts"])))
            self.assertEqual(values["weights/embedding.token.weight"]["count"], 1003 * 64)

    def test_a_run_without_it_writes_none(self):
        self.train("run", ["train.steps=1"])
        self.assertFalse((self.folder / "run/tensorboard").exists())

    def test_a_disk_that_is_full(self):
        keys = [*self.KEYS, "debug.log_sample_ids=false", "checkpoint.interval=0"]
        self.train("straight", keys)
        # Nothing else of this run outgrows its event file but its checkpoint, which is written last.
        limit = next((self.folder / "straight/tensorboard").iterdir()).stat().st_size - 100
        for other in ("config.toml", "metrics.jsonl", "data.jsonl", "train.log"):
            self.assertLess((self.folder / "straight" / other).stat().st_size, limit - 500)
        result = self.train("run", keys, expect=3, prepare=with_file_limit(limit))
        self.assertRegex(result.stderr, rf"error: cannot write {self.folder}/run/tensorboard/\S+: File too large")


if __name__ == "__main__":
    unittest.main()
