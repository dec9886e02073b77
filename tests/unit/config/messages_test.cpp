// SPDX-License-Identifier: Apache-2.0
// The words of an error: where, what, and what was probably meant.
#include "framework/config/names.h"
#include "tests/unit/config/config_text.h"

namespace tessera::config_test {
namespace {

TEST(Messages, SayWhereAndWhatWasMeant) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[trian]\nsteps = 1\n", "run.toml:1:2: unknown section 'trian' (did you mean 'train'?)"},
      {"[train]\nstesp = 1\n", "run.toml:2:1: unknown key 'stesp' in [train] (did you mean 'steps'?)"},
      {"[model]\nsteps = 1\n", "run.toml:2:1: unknown key 'steps' in [model] (it belongs to [train])"},
      {"[model]\nrope_theta = 1.0\n",
       "run.toml:2:1: unknown key 'rope_theta' in [model] (it belongs to [model.rope] as theta)"},
      {"[model]\nseq_lenght = 1\n",
       "run.toml:2:1: unknown key 'seq_lenght' in [model] (did you mean 'seq_length' of [train] or "
       "[data.stages]?)"},
      {"[rope]\ntheta = 1.0\n", "run.toml:1:2: unknown section 'rope' (did you mean [model.rope]?)"},
      {"steps = 1\n", "run.toml:1:1: unknown key 'steps' outside a section (it belongs to [train])"},
      {"[train]\nzzzzz = 1\n", "run.toml:2:1: unknown key 'zzzzz' in [train]"},
      {"[train]\n\"a\\nb\" = 1\n", "run.toml:2:1: unknown key 'a\\u000Ab' in [train]"},
      {"[train]\nsteps = \"8\"\n",
       "run.toml:2:9: train.steps must be an integer, and is the string \"8\" (did you mean 8, without "
       "quotes?)"},
      {"[train]\nsteps = 8.0\n",
       "run.toml:2:9: train.steps must be an integer, and is 8.0 (did you mean 8?)"},
      {"[train]\nsteps = true\n",
       "run.toml:2:9: train.steps must be an integer, and is true (did you mean 1?)"},
      {"[model]\nmlp_gated = 1\n",
       "run.toml:2:13: model.mlp_gated must be true or false, and is 1 (did you mean true?)"},
      {"[model]\nmlp_gated = \"false\"\n",
       "run.toml:2:13: model.mlp_gated must be true or false, and is the string \"false\" (did you mean "
       "false, "
       "without quotes?)"},
      {"[optimizer]\ntype = \"adam\"\n",
       "run.toml:2:8: optimizer.type must be \"adamw\" or \"sgd\", and is the string \"adam\" (did you mean "
       "'adamw'?)"},
      {"[model]\narchitecture = \"lama\"\n",
       "run.toml:2:16: model.architecture must be \"gpt\" or \"llama\", and is the string \"lama\" (did you "
       "mean "
       "'llama'?)"},
      {"[train]\nsteps = 0\n", "run.toml:2:9: train.steps must be 1 to 1000000000, and is 0"},
      {"[train]\nlabel_smoothing = 1.0\n",
       "run.toml:2:19: train.label_smoothing must be 0 to below 1, and is 1.0"},
      {"[optimizer]\nlr = nan\n", "run.toml:2:6: optimizer.lr must be 0 to 1e+06, and is nan"},
      {"[optimizer]\nbetas = [0.9]\n",
       "run.toml:2:9: optimizer.betas must be a list of two numbers, and has 1"},
      {"[run]\nname = \"\"\n", "run.toml:2:8: run.name must not be empty"},
      {"[run]\nname = \"a/b\"\n",
       "run.toml:2:8: run.name must be a name without '/', and is the string \"a/b\""},
      {"[run]\nname = \"a\\tb\"\n", "run.toml:2:8: run.name has a control character in it: \"a\\u0009b\""},
      {"train = 1\n", "run.toml:1:9: train must be a section, and is 1"},
      {"[data]\nsources = \"x\"\n",
       "run.toml:2:11: data.sources must be a list, and is the string \"x\" (write [[data.sources]])"},
      {"[data.sources]\npath = \"x\"\n",
       "run.toml:1:1: data.sources must be a list, and is a table (write [[data.sources]])"},
      {"[data]\nsources = [1]\n",
       "run.toml:2:12: data.sources must be a list of tables, and holds 1 (write [[data.sources]])"},
      {"[model.moe]\nnum_experts = 8\n", "run.toml:1:8: [model.moe] is not built yet"},
      {"[fault_tolerance]\nspike = 1\n", "run.toml:2:1: fault_tolerance.spike is not built yet"},
      {"[fault_tolerance]\nsignals = [\"TERM\", \"KILL\"]\n",
       "run.toml:2:20: fault_tolerance.signals must be \"TERM\", \"INT\", \"HUP\", \"USR1\" or \"USR2\", and "
       "is the "
       "string \"KILL\""},
      {"[fault_tolerance]\nsignals = [\"TERM\", \"TERM\"]\n",
       "run.toml:2:20: fault_tolerance.signals names \"TERM\" twice"},
      {"[train\n", "run.toml:1:7: not valid TOML: table header: expected ']', saw '\\n'"},
      {"x = 1\n [.train]\n", "run.toml:2:3: not valid TOML: table header: a name is missing"},
      {"[[?]]\n", "run.toml:1:3: not valid TOML: table header: a name is missing"},
      {"", "run.toml:1:1: [run] is missing; it needs name"},
  };
  for (const auto& [text, message] : cases)
    EXPECT_EQ(error_of(text).substr(0, message.size()), message) << text;
}

TEST(Messages, NameWhatIsMissingAndWhere) {
  EXPECT_EQ(error_of(ConfigText().remove("run")), "run.toml:1:1: [run] is missing; it needs name");
  EXPECT_EQ(error_of(ConfigText().remove("model", "vocab_size").remove("model", "hidden_size")),
            "run.toml:3:2: [model] lacks vocab_size, hidden_size");
  EXPECT_EQ(error_of(ConfigText().remove("optimizer", "lr").set("optimizer", "eps", "1e-8")),
            "run.toml:14:2: [optimizer] lacks lr");
  EXPECT_EQ(error_of(ConfigText().remove("data.sources", "path").set("data.sources", "name", "\"x\"")),
            "run.toml:16:1: [data.sources] lacks path");
  EXPECT_EQ(error_of(ConfigText().remove("data.sources")),
            "run.toml:1:1: no data: [[data.sources]] is missing");
}

TEST(Messages, ReportTheFirstFaultOfTheFile) {
  EXPECT_EQ(error_of("[train]\nzz = 1\naa = 2\n"), "run.toml:2:1: unknown key 'zz' in [train]");
}

TEST(Messages, PlaceOfABrokenDocument) {
  EXPECT_TRUE(contains(error_of("[train]\nsteps = 1\n[train]\n"), "run.toml:3:1: not valid TOML: "));
  EXPECT_TRUE(contains(error_of("x = \"\xff\"\n"), "run.toml:1:"));
  EXPECT_TRUE(contains(error_of("a" + std::string(3000, '.') + "b = 1\n"), "too many dots"));
  EXPECT_TRUE(contains(error_of("x = " + std::string(2000, '[')), "run.toml:1:"));
  EXPECT_TRUE(contains(error_of(std::string((4 << 20) + 1, '#')), "a config has at most 4194304 bytes"));
}

std::string place_and_words(const std::string& text) {
  const std::string error = error_of(text);
  const std::string kInvalid = "not valid TOML: ";
  const size_t at = error.find(kInvalid);
  return at == error.npos ? error : error.substr(0, at) + error.substr(at + kInvalid.size());
}

TEST(Messages, NameCharactersThatTomlDoesNotAllow) {
  const std::string kOutside = " outside of a string or comment";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"x = \xc2\xa1\n", "run.toml:1:5: character U+00A1" + kOutside},
      {"x =\xc2\xa0 1\n", "run.toml:1:4: character U+00A0" + kOutside},
      {"a = 1\r\n\"\xc3\xa9\" = \"\xe2\x82\xac\" \xe2\x80\x9c\n",
       "run.toml:2:11: character U+201C" + kOutside},
      {"\xef\xbb\xbf\xef\xbb\xbfx = 1\n", "run.toml:1:1: character U+FEFF" + kOutside},
      {"[\xf0\x9f\x98\x80]\n", "run.toml:1:2: character U+1F600" + kOutside},
      {"x = 1\x01\n", "run.toml:1:6: control character U+0001" + kOutside},
      {std::string("x = 1\n\0", 7), "run.toml:2:1: control character U+0000" + kOutside},
      {"x = 1\x7f\n", "run.toml:1:6: control character U+007F" + kOutside},
      {"x = \xff\n", "run.toml:1:5: byte 0xFF, which is not UTF-8," + kOutside},
      {"# \xc3\xa9\nx = '''\xc3\xa9''''' \xc3\xa9\n", "run.toml:2:15: character U+00E9" + kOutside},
      {"x = 1\"\xc2\xa1\"\n", "run.toml:1:6: \" straight after '1'"},
      {"x = \"\"\"\"\"\"\"\xc2\xa1\"\n", "run.toml:1:12: character U+00A1" + kOutside},
      {"x = \"\"\"\"\"\"\"\"\"\xc2\xa1\"\n", "run.toml:1:13: \" straight after '\"'"},
      {"x = '\\' \xc3\xa9'\n", "run.toml:1:9: character U+00E9" + kOutside},
      {"x = \"\"\"\\\xc2\xa1\"\"\"\n", "run.toml:1:9: a backslash before character U+00A1"},
      {"x = \"\"\"a\\ \n  \xc2\xa1\"\"\"\n",
       "run.toml:2:3: character U+00A1 is the first after a backslash at a line's end: write it as \\uXXXX"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(place_and_words(text), message) << text;
}

TEST(Messages, AllowEveryCharacterInStringsAndComments) {
  const std::string kEvery = "\xc2\xa1\xc2\xa0\xe2\x80\x9c\xe3\x80\x80\xf0\x9f\x98\x80";
  const std::vector<std::string> strings = {
      "\"" + kEvery + "\\\"" + kEvery + "\"",
      "'" + kEvery + "'",
      "\"\"\"\n" + kEvery + "\"\"" + kEvery + "\\\"\"\" \\\n  . " + kEvery + "\"\"\"",
      "'''\n" + kEvery + "'' \\ " + kEvery + "'''''",
  };
  for (const std::string& string : strings) {
    const std::string text =
        "\xef\xbb\xbf# " + kEvery + "\nx = [" + string + ",\n" + string + "] # " + kEvery + "\n";
    EXPECT_TRUE(contains(error_of(text), "run.toml:2:1: unknown key 'x' outside a section"));
  }
}

TEST(Messages, OverridesMayBeBareWordsOfAnyLanguage) {
  const auto name = [](const std::string& value) {
    return load(ConfigText(), {"run.name=" + value}).config.run.name;
  };
  EXPECT_EQ(name("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_EQ(name("\"caf\xc3\xa9\""), "caf\xc3\xa9");
  EXPECT_EQ(error_of(ConfigText(), {"optimizer.betas=[0.9, \xc2\xa1]"}),
            "--set optimizer.betas: not valid TOML: character U+00A1 outside of a string or comment");
}

TEST(Names, NearestIsTheOneWithFewestEdits) {
  using config::edit_distance;
  using config::nearest_name;
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("steps", "steps"), 0u);
  EXPECT_EQ(edit_distance("stesp", "steps"), 1u);  // a swap
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(nearest_name("lrr", {"lr", "type"}), "lr");
  EXPECT_EQ(nearest_name("x", {"lr", "tp"}), "");
  EXPECT_EQ(nearest_name(std::string(1000, 'a'), {std::string(999, 'a')}), "");
}

}  // namespace
}  // namespace tessera::config_test
