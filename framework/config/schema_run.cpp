// SPDX-License-Identifier: Apache-2.0
#include "framework/config/schema_sections.h"
#include "framework/config/section_builder.h"

namespace tessera::config {

void add_run_sections(std::vector<Section>& sections) {
  using Device = RunSection::Device;
  SectionBuilder<RunSection> run("run", "The run as a whole.",
                                 [](RunConfig& c, size_t) -> RunSection& { return c.run; });
  run.key("name", &RunSection::name,
          {.presence = Presence::Required,
           .text = Text::Name,
           .help = "Name of the run, in reports and as the default folder."})
      .key("output_dir", &RunSection::output_dir,
           {.presence = Presence::Derived,
            .text = Text::OutputPath,
            .default_text = "runs/NAME",
            .help = "Folder that everything is written to; relative to the current folder."})
      .key("seed", &RunSection::seed,
           {.integers = {0, std::numeric_limits<int64_t>::max()},
            .help = "Initial weights, dropout and, unless data.shuffle_seed is given, the order of samples."})
      .choice("device", &RunSection::device,
              {{"cpu", Device::Cpu}, {"cuda", Device::Cuda}, {"auto", Device::Cpu}},
              {.presence = Presence::Derived,
               .default_text = "\"auto\": cuda when present, else cpu",
               .help = "What computes."})
      .key("threads_per_rank", &RunSection::threads_per_rank,
           {.presence = Presence::Optional,
            .integers = {1, 4096},
            .unit = "threads",
            .default_text = "absent: cores of the node / ranks on the node",
            .help = "CPU threads that each rank computes with."})
      .key("peak_flops", &RunSection::peak_flops,
           {.presence = Presence::Optional,
            .reals = {.min = 1, .max = 1e18},
            .unit = "FLOP/s",
            .default_text = "absent: the best of 10 products of 2048 x 2048 matrices, measured at the start",
            .help = "Peak of one rank's device, which MFU is a share of."})
      .later("mesh_invariant", "Same bits on every mesh.");
  sections.push_back(run.build());
}

void add_parallel_sections(std::vector<Section>& sections) {
  using Parallel = ParallelSection;
  using SequenceMode = Parallel::SequenceMode;
  SectionBuilder<Parallel> parallel("parallel", "The mesh: ranks = tp * sp * dp * pp.",
                                    [](RunConfig& c, size_t) -> Parallel& { return c.parallel; });
  const IntegerRange ranks = {1, kMostRanks};
  parallel
      .key("tp", &Parallel::tp,
           {.integers = ranks,
            .unit = "ranks",
            .aliases = {"tensor_model_parallel_size", "tensor_parallel_size"},
            .help = "Ranks that each layer is cut over."})
      .key("pp", &Parallel::pp,
           {.integers = ranks,
            .unit = "ranks",
            .aliases = {"pipeline_model_parallel_size", "pipeline_parallel_size"},
            .help = "Pipeline stages that the blocks are dealt to."})
      .key("dp", &Parallel::dp,
           {.integers = {-1, kMostRanks},
            .unit = "ranks",
            .aliases = {"data_parallel_size"},
            .help = "Copies of the model that share the samples of a step; -1: the ranks that are left."})
      .key("sp", &Parallel::sp,
           {.integers = ranks,
            .unit = "ranks",
            .aliases = {"context_parallel_size", "cp", "sequence_parallel_size"},
            .help = "Ranks that each sequence is cut over."})
      .choice("sp_mode", &Parallel::sp_mode,
              {{"ring", SequenceMode::Ring},
               {"ulysses", SequenceMode::Ulysses},
               {"allgather", SequenceMode::Allgather}},
              {.help = "How attention crosses the cuts of a sequence."})
      .key("ep", &Parallel::ep,
           {.integers = ranks,
            .unit = "ranks",
            .aliases = {"expert_model_parallel_size", "expert_parallel_size"},
            .help = "Ranks that the experts are dealt to."})
      .key("etp", &Parallel::etp,
           {.integers = ranks,
            .unit = "ranks",
            .aliases = {"expert_tensor_parallel_size"},
            .help = "Ranks that each expert is cut over."})
      .key("sequence_parallel", &Parallel::sequence_parallel,
           {.presence = Presence::Derived,
            .default_text = "true when tp > 1",
            .help = "Cut norms and dropouts along the sequence inside the tp group."})
      .key("zero_stage", &Parallel::zero_stage,
           {.integers = {0, 3},
            .aliases = {"zero_optimization_stage"},
            .help = "What data ranks share out: 1 optimizer state, 2 gradients too, 3 parameters too."})
      .key("schedule", &Parallel::schedule,
           {.text = Text::InputPath,
            .allowed = {"1f1b", "gpipe", "interleaved", "zb_h1", "zb_h2", "zb_v", "v_half", "v_min",
                        "dualpipe_v", "auto"},
            .help = "Order of forward and backward work over the pipeline; auto: the quickest that is found "
                    "within live_activations; a path: a file with a list a rank, as `--print schedule` "
                    "writes it."})
      .key("live_activations", &Parallel::live_activations,
           {.presence = Presence::Optional,
            .integers = {1, 1 << 20},
            .unit = "micro-batches",
            .default_text = "pp",
            .help = "Under schedule = \"auto\": the most activations that a rank may hold, as many as this "
                    "number of micro-batches leaves on the rank that keeps most. More lets ranks idle "
                    "less."})
      .key("virtual_stages", &Parallel::virtual_stages,
           {.integers = {1, 1024}, .help = "Model chunks on each pipeline rank."})
      .key("zero_shard_size", &Parallel::zero_shard_size,
           {.presence = Presence::Optional,
            .integers = {1, 1 << 20},
            .help = "Ranks that one copy of the shared-out state lies on, neighbours along dp and sp; the "
                    "copies are replicas. Absent: all dp * sp."})
      .choice(
          "zero_reduce", &Parallel::zero_reduce,
          {{"microbatch", Parallel::ZeroReduce::Microbatch}, {"step", Parallel::ZeroReduce::Step}},
          {.help =
               "When stages 2 and 3 reduce: each micro-batch, so that whole gradients never last, or once "
               "a step, with less traffic and whole gradients."})
      .key("stage_layout", &Parallel::stage_layout,
           {.presence = Presence::Optional,
            .help = "Blocks of each stage, in order: \"2, 3, 2\", or \"7*2\" for seven stages of 2. Empty: "
                    "split so "
                    "that the slowest rank has the least work, the embedding and the head counted."})
      .later("rank_order", "How ranks lie on the mesh.");
  sections.push_back(parallel.build());

  using Comm = CommSection;
  using AllReduce = Comm::AllReduce;
  using Backend = Comm::Backend;
  SectionBuilder<Comm> comm("comm", "How ranks talk.", [](RunConfig& c, size_t) -> Comm& { return c.comm; });
  comm.key("overlap_grad_reduce", &Comm::overlap_grad_reduce,
           {.help = "Reduce each bucket of gradients while backward still runs."})
      .key(
          "overlap_param_gather", &Comm::overlap_param_gather,
          {.help = "Gather parameters under the forward that needs them, ahead of their use (zero_stage 1 to "
                   "3)."})
      .key("regather_inputs", &Comm::regather_inputs,
           {.help =
                "Under sequence_parallel keep only a shard of each input and gather it again in backward."})
      .choice(
          "all_reduce", &Comm::all_reduce,
          {{"auto", AllReduce::Auto},
           {"direct", AllReduce::Direct},
           {"ring", AllReduce::Ring},
           {"tree", AllReduce::Tree},
           {"hierarchical", AllReduce::Hierarchical},
           {"parameter_server", AllReduce::ParameterServer}},
          {.help =
               "Algorithm of every all-reduce: docs/communication.md has the bytes and hops of each. auto "
               "chooses by size and by how many nodes the ranks are on."})
      .key("bucket_size_mb", &Comm::bucket_size_mb,
           {.reals = {.min = 0, .max = 65536, .above_min = true},
            .unit = "2^20 bytes",
            .help = "Gradients that are reduced together; a parameter is never split."})
      .choice("grad_reduce_dtype", &Comm::grad_reduce_dtype,
              {{"fp32", FloatType::Fp32}, {"bf16", FloatType::Bf16}, {"fp16", FloatType::Fp16}},
              {.help = "Type in which gradients travel and are summed."})
      .key("timeout_s", &Comm::timeout_s,
           {.reals = {.min = 0, .max = 1e6, .above_min = true},
            .unit = "seconds",
            .help = "A rank that does not answer for this long ends the job."})
      .choice("backend", &Comm::backend,
              {{"auto", Backend::Auto},
               {"in_process", Backend::InProcess},
               {"mpi", Backend::Mpi},
               {"nccl", Backend::Nccl}},
              {.help = "auto: mpi when launched as several processes, else threads of one process."});
  sections.push_back(comm.build());
}

}  // namespace tessera::config
