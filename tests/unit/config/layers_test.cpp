// SPDX-License-Identifier: Apache-2.0
// Files that read other files, --set arguments, environment variables and aliases.
#include <filesystem>
#include <fstream>

#include "tests/support/scratch_folder.h"
#include "tests/unit/config/config_text.h"

namespace tessera::config_test {
namespace {

namespace fs = std::filesystem;

class ConfigFiles : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "inner"); }

  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  LoadedConfig load_file(const std::string& name, std::vector<std::string> overrides = {}) const {
    return load_config({folder_ / name, std::move(overrides), {}});
  }

  std::string file_error(const std::string& name) const {
    try {
      load_file(name);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::Usage);
      return error.what();
    }
    return "no error";
  }

  const test::ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(ConfigFiles, BaseIsReadFirstTablesMergeAndListsReplace) {
  write("base.toml",
        ConfigText().set("data.sources", "weight", "3.0").set("debug", "dump_steps", "[1, 2]").text());
  write("run.toml", "base = \"base.toml\"\n[train]\nsteps = 50\n[debug]\ndump_steps = [7]\n");
  const RunConfig config = load_file("run.toml").config;
  EXPECT_EQ(config.train.steps, 50);
  EXPECT_EQ(config.train.seq_length, 33);
  EXPECT_EQ(config.debug.dump_steps, std::vector<int64_t>{7});
  ASSERT_EQ(config.data.sources.size(), 1u);

  write("other.toml",
        "base = \"base.toml\"\n[[data.sources]]\npath = \"a.txt\"\n[[data.sources]]\npath = \"b.txt\"\n");
  const RunConfig replaced = load_file("other.toml").config;
  ASSERT_EQ(replaced.data.sources.size(), 2u);
  EXPECT_EQ(replaced.data.sources[0].weight, 1.0);
}

TEST_F(ConfigFiles, InputPathsStartAtTheFileThatNamesThem) {
  write("base.toml", ConfigText().set("data.sources", "path", "\"../texts/a.txt\"").text());
  write("inner/run.toml", "base = \"../base.toml\"\n[run]\noutput_dir = \"out\"\n");
  const RunConfig config = load_file("inner/run.toml").config;
  EXPECT_EQ(config.data.sources[0].path, (folder_.parent_path() / "texts/a.txt").string());
  EXPECT_EQ(config.run.output_dir, (fs::current_path() / "out").string());
  EXPECT_EQ(config.checkpoint.dir, (fs::current_path() / "out/checkpoints").string());
  const RunConfig changed = load_file("inner/run.toml", {"data.sources.0.path=b.txt"}).config;
  EXPECT_EQ(changed.data.sources[0].path, (fs::current_path() / "b.txt").string());
}

TEST_F(ConfigFiles, LinksInTheWayToAFileAreFollowed) {
  fs::create_directories(folder_ / "real/deep");
  fs::create_directory_symlink(folder_ / "real/deep", folder_ / "link");
  write("real/deep/run.toml", ConfigText().set("data.sources", "path", "\"../a.txt\"").text());
  EXPECT_EQ(load_file("link/run.toml").config.data.sources[0].path, (folder_ / "real/a.txt").string());
}

TEST_F(ConfigFiles, AFaultInABaseNamesTheBase) {
  write("base.toml", "[train]\nstesp = 1\n");
  write("run.toml", "base = \"base.toml\"\n" + ConfigText().text());
  EXPECT_EQ(file_error("run.toml"), (folder_ / "base.toml").string() +
                                        ":2:1: unknown key 'stesp' in [train] (did you mean 'steps'?)");
  write("base.toml", "[train\n");
  EXPECT_TRUE(contains(file_error("run.toml"), "base.toml:1:7: not valid TOML"));
  // What is missing is missing in the file that was asked for.
  write("base.toml", "[train]\nsteps = 1\nseq_length = 7\n");
  write("run.toml", "base = \"base.toml\"\n\n[run]\nname = \"x\"\n");
  EXPECT_TRUE(contains(file_error("run.toml"), "run.toml:1:1: [model] is missing"));
}

TEST_F(ConfigFiles, BasesThatGoRoundAreRefused) {
  write("a.toml", "base = \"inner/../b.toml\"\n");
  write("b.toml", "base = \"a.toml\"\n");
  EXPECT_TRUE(contains(file_error("a.toml"), "b.toml:1:8: base"));
  EXPECT_TRUE(contains(file_error("a.toml"), "go round in a circle"));
  write("self.toml", "base = \"self.toml\"\n");
  EXPECT_TRUE(contains(file_error("self.toml"), "self.toml:1:8: base"));
}

TEST_F(ConfigFiles, ABaseThatIsNoFileIsRefused) {
  write("run.toml", "base = \"none.toml\"\n");
  EXPECT_EQ(file_error("run.toml"), (folder_ / "run.toml").string() + ":1:8: base " +
                                        (folder_ / "none.toml").string() + ": no such file");
  write("run.toml", "base = \"inner\"\n");
  EXPECT_TRUE(contains(file_error("run.toml"), "not a file"));
  write("run.toml", "base = \"/dev/zero\"\n");
  EXPECT_TRUE(contains(file_error("run.toml"), "not a file"));
  write("run.toml", "base = 1\n");
  EXPECT_TRUE(contains(file_error("run.toml"), "run.toml:1:8: base must be a string, and is 1"));
  EXPECT_EQ(file_error("absent.toml"), (folder_ / "absent.toml").string() + ": no such file");
}

TEST_F(ConfigFiles, ASharedBaseMayBeReadTwice) {
  write("root.toml", ConfigText().text());
  write("middle.toml", "base = \"root.toml\"\n[train]\nsteps = 30\n");
  write("run.toml", "base = \"middle.toml\"\n[train]\nseq_length = 7\n");
  const RunConfig config = load_file("run.toml").config;
  EXPECT_EQ(config.train.steps, 30);
  EXPECT_EQ(config.train.seq_length, 7);
}

TEST(Overrides, TakeTomlOrABareWord) {
  const ConfigText text;
  const RunConfig config =
      load(text, {"train.steps=100", "optimizer.type=sgd", "optimizer.lr=0.5", "run.name=2024",
                  "model.qk_norm=true", "debug.dump_steps=[1, 3]", "data.sources.0.name=books",
                  "optimizer.betas=[0.8, 0.9]", "train.steps=7"})
          .config;
  EXPECT_EQ(config.train.steps, 7);  // the last one counts
  EXPECT_EQ(config.optimizer.type, OptimizerSection::Type::Sgd);
  EXPECT_EQ(config.optimizer.lr, 0.5);
  EXPECT_EQ(config.run.name, "2024");
  EXPECT_TRUE(config.model.qk_norm);
  EXPECT_EQ(config.debug.dump_steps, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(config.data.sources[0].name, "books");
  EXPECT_EQ(config.optimizer.betas[0], 0.8);
}

TEST(Overrides, TablesMerge) {
  const RunConfig config =
      load(ConfigText().llama(), {"model.rope={theta = 500.0, scaling = {type = \"linear\", factor = 2}}"})
          .config;
  EXPECT_EQ(config.model.rope.theta, 500.0);
  ASSERT_TRUE(config.model.rope.scaling);
  EXPECT_EQ(config.model.rope.scaling->factor, 2.0);
}

TEST(Overrides, FaultsNameTheArgument) {
  const ConfigText text;
  EXPECT_EQ(error_of(text, {"train.stesp=1"}),
            "--set train.stesp: unknown key 'stesp' in [train] (did you mean 'steps'?)");
  EXPECT_EQ(error_of(text, {"train.steps=many"}),
            "--set train.steps: train.steps must be an integer, and is the string \"many\"");
  EXPECT_EQ(error_of(text, {"train.steps=0"}),
            "--set train.steps: train.steps must be 1 to 1000000000, and is 0");
  EXPECT_TRUE(contains(error_of(text, {"train.steps"}), "'=' is missing"));
  EXPECT_TRUE(contains(error_of(text, {"train.steps="}), "--set train.steps: no value"));
  EXPECT_TRUE(contains(error_of(text, {"=1"}), "write --set section.key=value"));
  EXPECT_TRUE(contains(error_of(text, {"train..steps=1"}), "write --set section.key=value"));
  EXPECT_TRUE(contains(error_of(text, {"train.a b=1"}), "a key has only letters"));
  EXPECT_TRUE(contains(error_of(text, {"debug.dump_steps=[1"}), "--set debug.dump_steps: not valid TOML"));
  EXPECT_TRUE(contains(error_of(text, {"data.sources.1.path=x"}), "no item 1: there are 1, counted from 0"));
  EXPECT_TRUE(contains(error_of(text, {"base=other.toml"}), "base is read at the top of a file only"));
  EXPECT_TRUE(contains(error_of(text, {"run.name=a\nb"}), "control character"));
  EXPECT_TRUE(contains(error_of(text, {"run.name=1\nx = 2"}), "control character"));
}

TEST(Overrides, ReplaceTheLengthOfTheRunInAnyOfItsForms) {
  RunConfig config = load(ConfigText(), {"train.samples=70"}).config;
  EXPECT_EQ(config.train.steps, 0);
  EXPECT_EQ(config.train.samples, 70);
  config = load(ConfigText().remove("train", "steps").set("train", "tokens", "1000"), {"train.train_iters=5"})
               .config;
  EXPECT_EQ(config.train.steps, 5);
  EXPECT_FALSE(config.train.tokens);
}

TEST(Overrides, MayUseTheOtherNameOfAKey) {
  const LoadedConfig loaded = load(ConfigText(), {"train.train_iters=5", "data.sources.0.path=a.txt"});
  EXPECT_EQ(loaded.config.train.steps, 5);
  EXPECT_EQ(loaded.notes,
            std::vector<std::string>{"--set train.train_iters: train_iters is read as train.steps"});
}

TEST(Variables, StandInStrings) {
  const std::map<std::string, std::string> variables = {{"USER", "ann"}, {"_A1", "x"}, {"EMPTY", ""}};
  const auto name_of = [&](const std::string& value) {
    return load_text(ConfigText().set("run", "name", value).text(), {}, variables).config.run.name;
  };
  EXPECT_EQ(name_of("\"${USER}-${_A1}${EMPTY}\""), "ann-x");
  EXPECT_EQ(name_of("\"$USER $$ $\""), "$USER $$ $");
  EXPECT_EQ(name_of("\"$${USER}\""), "${USER}");
  EXPECT_EQ(name_of("\"$$${USER}\""), "$${USER}");
  EXPECT_EQ(load_text(ConfigText().text(), {"run.name=${USER}"}, variables).config.run.name, "ann");
}

TEST(Variables, ThatAreUnsetOrMalformedAreErrors) {
  const auto error = [](const std::string& value) {
    return error_of(ConfigText().set("run", "name", value).text(), {}, {{"BAD", "\xff"}, {"LINE", "a\nb"}});
  };
  EXPECT_EQ(error("\"${NOPE}\""), "run.toml:2:8: environment variable NOPE is not set");
  for (const char* value : {"\"${\"", "\"${}\"", "\"${1A}\"", "\"${A B}\"", "\"${USER\""})
    EXPECT_TRUE(contains(error(value), "run.toml:2:8: '${' without NAME}")) << value;
  EXPECT_TRUE(contains(error("\"${BAD}\""), "BAD is not UTF-8"));
  EXPECT_TRUE(contains(error("\"${LINE}\""), "control character"));
  // Also where nobody reads the value.
  EXPECT_TRUE(contains(error_of("base = \"${NOPE}\"\n"), "environment variable NOPE is not set"));
}

}  // namespace
}  // namespace tessera::config_test
