// SPDX-License-Identifier: Apache-2.0
#include "framework/train/compare_shrink.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/base/random.h"
#include "framework/config/resolve.h"
#include "framework/dataset/token_file_writer.h"

namespace tessera {
namespace {

// The vocabulary holds the ids of the byte tokenizer, which is the least that a config may ask for.
constexpr int64_t kSequence = 37, kVocabulary = 257;

int64_t halved(int64_t size) {
  return size > 2 ? (size + 1) / 2 : size;
}

// --- The mesh -----------------------------------------------------------------------------------------

void shrink_mesh(CompareLayout& layout, int64_t most_ranks) {
  ParallelSection& p = layout.config.parallel;
  const ParallelSection before_all = p;
  if (p.dp == -1) p.dp = 2;  // "the rest" of a cluster that nobody named
  while (mesh_ranks(layout.config) > most_ranks) {
    const int64_t before = mesh_ranks(layout.config);
    int64_t& axis =
        p.dp > 2 ? p.dp : *std::max({&p.tp, &p.pp, &p.sp}, [](auto* a, auto* b) { return *a < *b; });
    axis = halved(axis);
    CHECK_AS(
        ExitCode::Usage, mesh_ranks(layout.config) < before,
        "layout \"{}\" has {} ranks even with 2 on each axis, and {} fit on this machine (--threads-anyway "
        "starts them all the same)",
        layout.name, before, most_ranks);
  }
  // Experts are cut over the same ranks.
  while (p.ep * p.etp > 1 && (p.tp * p.sp * p.dp) % (p.ep * p.etp) != 0) (p.ep > p.etp ? p.ep : p.etp) -= 1;
  if (p == before_all) return;
  layout.name += " shrunk to " + make_layout(mesh_sizes(p)).dense.to_string();
}

// --- The model ----------------------------------------------------------------------------------------

// Query heads that every layout divides, with as many queries to a key head as before.
void shrink_heads(ModelSection& m, const std::vector<CompareLayout>& layouts) {
  int64_t cut = 1;
  for (const CompareLayout& layout : layouts) {
    const ParallelSection& p = layout.config.parallel;
    const bool ulysses = p.sp_mode == ParallelSection::SequenceMode::Ulysses;
    cut = std::lcm(cut, ulysses ? p.tp * p.sp : p.tp);
  }
  const bool single = m.num_key_value_heads == 1;
  const int64_t group = single ? cut : std::min<int64_t>(m.num_attention_heads / m.num_key_value_heads, 8);
  int64_t heads = std::lcm(group, cut);
  while (heads < 3) heads *= 3;
  if (!single && group > 1 && heads == group) heads *= 2;  // more than one key head
  m.num_attention_heads = heads;
  m.num_key_value_heads = single ? 1 : heads / group;
}

// The smallest odd size, or the smallest whose rotating part is even.
int64_t small_head(const ModelSection& m) {
  if (m.position != ModelSection::Position::Rope) return 5;
  for (int64_t size = 6; size <= m.head_dim; ++size) {
    const double rotating = static_cast<double>(size) * m.rope.partial_rotary_factor;
    if (rotating >= 2 && rotating == std::floor(rotating) && static_cast<int64_t>(rotating) % 2 == 0)
      return size;
  }
  return m.head_dim;
}

int64_t odd(double size) {
  return std::max<int64_t>(7, static_cast<int64_t>(size)) | 1;
}

void shrink_widths(ModelSection& m, const std::vector<CompareLayout>& layouts) {
  const ModelSection big = m;
  shrink_heads(m, layouts);
  m.head_dim = small_head(big);
  const auto ratio = [](int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); };
  const int64_t heads_width = m.num_attention_heads * m.head_dim;
  const bool square = big.num_attention_heads * big.head_dim == big.hidden_size;
  m.hidden_size = square ? heads_width
                         : odd(ratio(big.hidden_size, big.num_attention_heads * big.head_dim) *
                               static_cast<double>(heads_width));
  m.intermediate_size =
      odd(std::min(4.0, ratio(big.intermediate_size, big.hidden_size)) * static_cast<double>(m.hidden_size));
  m.vocab_size = kVocabulary;
}

// At least one layer a chunk and three in all; uneven over the chunks where the big model is.
void shrink_depth(ModelSection& m, const std::vector<CompareLayout>& layouts, int64_t big_chunks) {
  int64_t chunks = 1;
  for (const CompareLayout& layout : layouts)
    chunks = std::max(chunks, layout.config.parallel.pp * stages_per_rank(layout.config.parallel));
  const int64_t even = chunks * std::max<int64_t>(1, (3 + chunks - 1) / chunks);
  const bool uneven = m.num_hidden_layers % big_chunks != 0;
  m.num_hidden_layers = std::min(m.num_hidden_layers, uneven ? even + 1 : even);
}

// Positions keep their ratio to the sequence.
void shrink_sequence(RunConfig& config) {
  ModelSection& m = config.model;
  const int64_t big = config.train.seq_length, small = std::min(big, kSequence);
  const auto scaled = [&](int64_t count) {
    return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(count) * static_cast<double>(small) /
                                                     static_cast<double>(big)));
  };
  config.train.seq_length = small;
  m.max_position_embeddings =
      std::max(scaled(m.max_position_embeddings), m.max_position_embeddings >= big ? small : 1);
  if (m.sliding_window) m.sliding_window = std::max<int64_t>(2, scaled(*m.sliding_window));
  if (m.rope.scaling && m.rope.scaling->original_max_position_embeddings > 0)
    m.rope.scaling->original_max_position_embeddings =
        scaled(m.rope.scaling->original_max_position_embeddings);
}

// Several micro-batches on every data rank, more than pipeline stages, and a last one that is not full.
void shrink_batch(std::vector<CompareLayout>& layouts) {
  int64_t samples = 1, times = 3;
  for (CompareLayout& layout : layouts) {
    TrainSection& train = layout.config.train;
    train.micro_batch_size = std::clamp<int64_t>(train.micro_batch_size, 1, 2);
    samples = std::max(samples, train.micro_batch_size * layout.config.parallel.dp);
    times = std::max(times, 2 * layout.config.parallel.pp);
  }
  for (CompareLayout& layout : layouts) {
    layout.config.train.global_batch_size = samples * times - (samples > 1 ? 1 : 0);
    layout.config.train.gradient_accumulation_steps = 0;
  }
}

void shrink_run(RunConfig& config, int steps) {
  config.train.steps = steps;
  config.train.samples.reset();
  config.train.tokens.reset();
  config.train.eval_interval = 0;
  LrScheduleSection& rate = config.lr_schedule;
  rate.warmup_steps = std::min<int64_t>(rate.warmup_steps, 1);
  rate.decay_steps = std::max<int64_t>(steps, 3);
  if (rate.wsd_decay_steps) rate.wsd_decay_steps = 1;
  ActivationCheckpointingSection& recompute = config.activation_checkpointing;
  if (recompute.mode == ActivationCheckpointingSection::Mode::Budget) {
    recompute.mode = ActivationCheckpointingSection::Mode::Full;
    recompute.memory_budget_gb.reset();
    recompute.num_layers = 1;
  }
  if (recompute.num_layers)
    recompute.num_layers = std::min(*recompute.num_layers, config.model.num_hidden_layers - 1);
  config.run.threads_per_rank = 1;
  config.parallel.stage_layout.clear();  // it counts the big model's layers
}

}  // namespace

void shrink_layouts(std::vector<CompareLayout>& layouts, int64_t most_ranks, int steps) {
  for (const CompareLayout& layout : layouts)
    CHECK_AS(ExitCode::Usage, layout.config.parallel.schedule_text.empty(),
             "--shrink changes the ranks and micro-batches that the schedule {} counts: compare without it",
             layout.config.parallel.schedule);
  int64_t big_chunks = 1;
  for (const CompareLayout& layout : layouts)
    big_chunks = std::max(big_chunks, layout.config.parallel.pp * stages_per_rank(layout.config.parallel));
  for (CompareLayout& layout : layouts) shrink_mesh(layout, most_ranks);
  ModelSection model = layouts[0].config.model;
  shrink_widths(model, layouts);
  shrink_depth(model, layouts, big_chunks);
  for (CompareLayout& layout : layouts) {
    const int64_t positions = layout.config.model.max_position_embeddings;
    layout.config.model = model;
    layout.config.model.max_position_embeddings = positions;
    shrink_sequence(layout.config);
    shrink_run(layout.config, steps);
  }
  shrink_batch(layouts);
}

SyntheticTokens::SyntheticTokens(std::vector<CompareLayout>& layouts) {
  std::string name = (std::filesystem::temp_directory_path() / "tessera_compare_XXXXXX").string();
  CHECK_AS(ExitCode::Data, ::mkdtemp(name.data()) != nullptr,
           "no folder for synthetic tokens can be made as {}", name);
  folder_ = name;
  const RunConfig& first = layouts[0].config;
  const int64_t length = first.train.seq_length, vocabulary = first.model.vocab_size;
  const int64_t wanted = std::max<int64_t>(8, first.train.global_batch_size) * 4 * length;
  TokenFileWriter writer(folder_ / "tokens", "bytes", vocabulary);
  const RandomKey key = random_key(static_cast<uint64_t>(first.run.seed), "synthetic tokens");
  for (uint64_t at = 0; writer.tokens() < wanted;) {
    std::vector<int32_t> document(1 + philox(key, at++)[0] % static_cast<uint64_t>(2 * length));
    for (int32_t& token : document) {
      // Squares make small ids frequent, so that there is something to learn.
      const auto draw = static_cast<double>(philox(key, at++)[0]) / 4294967296.0;
      token = static_cast<int32_t>(draw * draw * static_cast<double>(vocabulary));
    }
    writer.add(document);
    writer.end_document();
  }
  writer.finish();
  for (CompareLayout& layout : layouts) {
    layout.config.data.sources = {{.name = "synthetic", .path = (folder_ / "tokens").string()}};
    layout.config.data.split = {1.0, 0.0};
  }
}

SyntheticTokens::~SyntheticTokens() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace tessera
