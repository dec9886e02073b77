// SPDX-License-Identifier: Apache-2.0
// What one run is: a plain struct for each section of a config file. A field has the name of its key and
// starts with the key's default; what the keys mean, their ranges and units stand in one table
// (schema.cpp) and in docs/config.md. The reader fills in every derived value, so nobody else computes a
// default. Fields marked [mesh] depend on the number of ranks: resolve_parallel (resolve.h) sets them.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

enum class FloatType : uint8_t { Fp32, Bf16, Fp16 };

struct RunSection {
  enum class Device : uint8_t { Cpu, Cuda };  // "auto" is resolved by the reader

  std::string name;
  std::string output_dir;  // absolute; runs/<name> in the current folder unless given
  int64_t seed = 1234;
  Device device = Device::Cpu;
  std::optional<int64_t> threads_per_rank;  // absent: cores of the node / ranks on the node
  std::optional<double> peak_flops;         // of one rank, per second; absent: measured on a CPU
  bool operator==(const RunSection&) const = default;
};

struct RopeScaling {
  enum class Type : uint8_t { Linear, Llama3, Yarn };

  Type type = Type::Linear;
  double factor = 1.0;
  int64_t original_max_position_embeddings = 0;  // llama3 and yarn
  double low_freq_factor = 1.0;                  // llama3
  double high_freq_factor = 4.0;                 // llama3
  double beta_fast = 32.0;                       // yarn
  double beta_slow = 1.0;                        // yarn
  double attention_factor = 1.0;                 // yarn: 0.1 ln(factor) + 1 unless given
  bool operator==(const RopeScaling&) const = default;
};

struct RopeSection {
  double theta = 10000.0;
  double partial_rotary_factor = 1.0;
  std::optional<RopeScaling> scaling;
  bool operator==(const RopeSection&) const = default;
};

struct ModelSection {
  enum class Activation : uint8_t { Gelu, GeluNew, Silu };  // Gelu is exact, GeluNew is the tanh form
  enum class Norm : uint8_t { LayerNorm, RmsNorm };
  enum class Position : uint8_t { Learned, Rope, None };

  std::string architecture;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  Activation hidden_act = Activation::GeluNew;
  bool mlp_gated = false;
  Norm norm = Norm::LayerNorm;
  double norm_eps = 1e-5;
  Position position = Position::Learned;
  bool attention_bias = true;
  bool mlp_bias = true;
  bool tie_word_embeddings = true;
  double initializer_range = 0.02;
  double attention_dropout = 0.0;
  double hidden_dropout = 0.0;
  bool qk_norm = false;
  std::optional<int64_t> sliding_window;  // tokens that a token sees, itself included; absent: all
  RopeSection rope;                       // used when position is Rope
  bool operator==(const ModelSection&) const = default;
};

struct ParallelSection {
  enum class SequenceMode : uint8_t { Ring, Ulysses, Allgather };
  enum class ZeroReduce : uint8_t { Microbatch, Step };

  int64_t tp = 1;
  int64_t pp = 1;
  int64_t dp = -1;  // [mesh] -1: the ranks that are left
  int64_t sp = 1;
  SequenceMode sp_mode = SequenceMode::Ring;
  int64_t ep = 1;
  int64_t etp = 1;
  bool sequence_parallel = false;  // true when tp > 1 unless given
  int64_t zero_stage = 0;
  std::optional<int64_t> zero_shard_size;           // absent: dp * sp
  ZeroReduce zero_reduce = ZeroReduce::Microbatch;  // of stages 2 and 3
  std::string schedule = "1f1b";  // a form, or the absolute path of a file with the lists of all ranks
  std::string schedule_text;      // no key: the content of that file; empty for a form
  int64_t virtual_stages = 1;
  std::optional<int64_t> live_activations;  // absent: pp
  std::string stage_layout;                 // blocks of each stage, "7*2, 6"; empty: chosen by cost
  bool operator==(const ParallelSection&) const = default;
};

struct CommSection {
  enum class AllReduce : uint8_t { Auto, Direct, Ring, Tree, Hierarchical, ParameterServer };
  enum class Backend : uint8_t { Auto, InProcess, Mpi, Nccl };

  bool overlap_grad_reduce = true;
  bool overlap_param_gather = true;
  bool regather_inputs = true;
  AllReduce all_reduce = AllReduce::Auto;
  double bucket_size_mb = 25.0;  // 1 MB is 2^20 bytes
  FloatType grad_reduce_dtype = FloatType::Fp32;
  double timeout_s = 600.0;
  Backend backend = Backend::Auto;
  bool operator==(const CommSection&) const = default;
};

struct TrainSection {
  int64_t micro_batch_size = 0;             // [mesh] samples of one forward on one data rank
  int64_t global_batch_size = 0;            // [mesh] samples of one step over all ranks
  int64_t gradient_accumulation_steps = 0;  // [mesh] micro-batches of one step on one data rank
  int64_t seq_length = 0;
  int64_t steps = 0;               // [mesh] when samples or tokens is given
  std::optional<int64_t> samples;  // [mesh] absent once steps is known
  std::optional<int64_t> tokens;   // [mesh] absent once steps is known
  double grad_clip = 1.0;          // 0: no clipping
  double label_smoothing = 0.0;
  int64_t eval_interval = 0;  // steps; 0: never
  int64_t eval_steps = 10;    // global batches of one evaluation
  bool operator==(const TrainSection&) const = default;
};

struct OptimizerGroup {
  std::string match;  // a parameter name, * stands for any characters; the last match counts
  double lr_mult = 1.0;
  std::optional<double> weight_decay;  // absent: that of [optimizer]
  bool operator==(const OptimizerGroup&) const = default;
};

struct OptimizerSection {
  enum class Type : uint8_t { AdamW, Sgd };

  Type type = Type::AdamW;
  double lr = 0.0;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0.0;
  std::vector<OptimizerGroup> groups;
  bool operator==(const OptimizerSection&) const = default;
};

struct LrScheduleSection {
  enum class Type : uint8_t { Cosine, Linear, Constant, InverseSqrt, Wsd };

  Type type = Type::Cosine;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // [mesh] steps unless given: the step, from 0, at which min_lr is reached
  double min_lr = 0.0;
  std::optional<int64_t> wsd_decay_steps;  // length of the decay, which ends at decay_steps; wsd only
  bool operator==(const LrScheduleSection&) const = default;
};

struct LossScale {
  enum class Type : uint8_t { None, Static, Dynamic };

  Type type = Type::None;    // dynamic for fp16 unless given
  double initial = 65536.0;  // a power of two
  int64_t window = 1000;     // steps without overflow before the scale doubles
  double min = 1.0;          // a scale that would fall below stops the run
  bool operator==(const LossScale&) const = default;
};

struct PrecisionSection {
  enum class GradAccumulate : uint8_t { Fp32, Compute };

  FloatType compute = FloatType::Fp32;
  GradAccumulate grad_accumulate = GradAccumulate::Fp32;
  LossScale loss_scale;
  bool operator==(const PrecisionSection&) const = default;
};

struct ActivationCheckpointingSection {
  enum class Mode : uint8_t { None, Selective, Full, Stage, Budget };

  Mode mode = Mode::None;
  std::optional<int64_t> num_layers;                 // blocks that recompute, from the first; absent: all
  std::vector<std::string> modules = {"attention"};  // what selective recomputes
  std::optional<double>
      memory_budget_gb;  // of one rank at the peak of a step; budget only; 1 GB is 2^30 bytes
  bool offload = false;
  std::string offload_dir;  // absolute; empty: the system's temporary folder of each host
  bool operator==(const ActivationCheckpointingSection&) const = default;
};

struct TokenizerSection {
  enum class Type : uint8_t { Bytes, Bpe };

  Type type = Type::Bytes;
  std::string path;             // absolute; empty for bytes
  std::string end_of_document;  // empty: as the tokenizer's files say
  std::string pattern;          // of a file of ranks; empty: by the number of ranks
  bool operator==(const TokenizerSection&) const = default;
};

struct DataSource {
  enum class Format : uint8_t { Auto, TokenFile, Text };  // Auto: tokens when PATH.idx exists, else text

  std::string name;  // unique; the file name of path without its extension unless given
  std::string path;  // absolute
  double weight = 1.0;
  Format format = Format::Auto;
  bool operator==(const DataSource&) const = default;
};

// What changes after some steps; before the first stage the sources' own weights and train.seq_length hold.
struct DataStage {
  std::optional<int64_t> start;         // steps that are done before it begins; set once the mesh is known
  std::optional<int64_t> start_tokens;  // [mesh] absent once start is known
  std::vector<double> weights;          // of the sources, in their order; empty: their own
  std::optional<int64_t> seq_length;    // tokens of a context; absent: train.seq_length
  bool operator==(const DataStage&) const = default;
};

struct DataSection {
  enum class Packing : uint8_t { Cut, FirstFit };

  std::vector<DataSource> sources;
  std::vector<DataStage> stages;
  std::array<double, 2> split = {1.0, 0.0};  // shares of each source for training and for evaluation
  Packing packing = Packing::Cut;
  bool document_mask = true;
  int64_t shuffle_seed = 0;  // run.seed unless given
  bool operator==(const DataSection&) const = default;
};

struct CheckpointSection {
  std::string dir;          // absolute; <output_dir>/checkpoints unless given
  int64_t interval = 1000;  // steps; 0: only at the end and on a signal
  int64_t keep_last = 3;
  int64_t keep_every = 0;  // steps; checkpoints at multiples are never removed; 0: none
  bool async = true;
  bool verify = true;
  int64_t max_files = 256;
  bool shared_fs = true;
  std::optional<double> memory_budget_gb;  // of one rank's copy while a save goes on; 1 GB is 2^30 bytes
  bool operator==(const CheckpointSection&) const = default;
};

struct LoggingSection {
  int64_t interval = 1;  // steps between progress lines; metrics.jsonl has every step
  bool tensorboard = false;
  int64_t per_tensor = 0;      // steps; 0: never
  std::vector<int64_t> trace;  // steps, counted from 1
  bool operator==(const LoggingSection&) const = default;
};

struct FaultToleranceSection {
  enum class NanPolicy : uint8_t { Stop, Skip };

  NanPolicy nan_policy = NanPolicy::Stop;
  std::vector<std::string> signals = {"TERM", "INT", "USR1"};  // save, then end with 75
  bool operator==(const FaultToleranceSection&) const = default;
};

struct DebugSection {
  std::vector<int64_t> dump_steps;  // counted from 1
  bool allow_large = false;
  bool check_replicas = false;
  bool log_sample_ids = false;
  bool poison = false;
  bool operator==(const DebugSection&) const = default;
};

struct RunConfig {
  RunSection run;
  ModelSection model;
  ParallelSection parallel;
  CommSection comm;
  TrainSection train;
  OptimizerSection optimizer;
  LrScheduleSection lr_schedule;
  PrecisionSection precision;
  ActivationCheckpointingSection activation_checkpointing;
  TokenizerSection tokenizer;
  DataSection data;
  CheckpointSection checkpoint;
  LoggingSection logging;
  FaultToleranceSection fault_tolerance;
  DebugSection debug;
  bool operator==(const RunConfig&) const = default;
};

}  // namespace tessera
