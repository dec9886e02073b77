// SPDX-License-Identifier: Apache-2.0
#include "tests/support/faulty_model.h"

#include "framework/ops/memory.h"

namespace tessera::test {
namespace {

// Passes everything on, but forgets sums while told to.
class ForgetfulCommunicator : public Communicator {
 public:
  explicit ForgetfulCommunicator(Communicator& real) : real_(real) {}
  bool forgets = false;

  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  std::string_view name() const override { return real_.name(); }
  std::vector<int> nodes() const override { return real_.nodes(); }
  void use_all_reduce(AllReduceAlgorithm algorithm) override { real_.use_all_reduce(algorithm); }
  Work all_reduce(const Tensor& data, Reduce op, Stream& after) override {
    return forgets ? Work() : real_.all_reduce(data, op, after);
  }
  Work all_gather(const Tensor& shard, const Tensor& whole, Stream& after) override {
    return real_.all_gather(shard, whole, after);
  }
  Work reduce_scatter(const Tensor& whole, const Tensor& shard, Reduce op, Stream& after) override {
    return real_.reduce_scatter(whole, shard, op, after);
  }
  Work all_to_all(const Tensor& send, std::span<const int64_t> send_rows, const Tensor& receive,
                  std::span<const int64_t> receive_rows, Stream& after) override {
    return real_.all_to_all(send, send_rows, receive, receive_rows, after);
  }
  Work broadcast(const Tensor& data, int root, Stream& after) override {
    return real_.broadcast(data, root, after);
  }
  Work exchange(std::span<const PeerOp> operations, Stream& after) override {
    return real_.exchange(operations, after);
  }
  void barrier() override { real_.barrier(); }
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override {
    return real_.split(color, key, name);
  }
  std::unique_ptr<Communicator> subgroup(std::span<const int> members, std::string_view name) override {
    return real_.subgroup(members, name);
  }
  void all_reduce_host(std::span<int64_t> values, Reduce op) override { real_.all_reduce_host(values, op); }
  void all_reduce_host(std::span<double> values, Reduce op) override { real_.all_reduce_host(values, op); }
  void broadcast_host(std::string& bytes, int root) override { real_.broadcast_host(bytes, root); }
  std::vector<std::string> all_gather_host(std::string_view bytes) override {
    return real_.all_gather_host(bytes);
  }
  void abort(std::string_view cause) noexcept override { real_.abort(cause); }

 private:
  Communicator& real_;
};

class FaultyModule : public Module {
 public:
  FaultyModule(const UnitFault& fault, const ParameterStore& store, Communicator* tensor_group,
               std::unique_ptr<ForgetfulCommunicator> forgetful)
      : fault_(fault), store_(store), tensor_group_(tensor_group), forgetful_(std::move(forgetful)) {}
  void wrap(std::unique_ptr<Module> real) { real_ = std::move(real); }

  Tensor forward(const Tensor& x, Saved& saved, Context& context) const override {
    return real_->forward(x, saved, context);
  }
  void forward_again(const Tensor& x, Saved& saved, Context& context) const override {
    real_->forward_again(x, saved, context);
  }
  Tensor backward_input(const Tensor& dy, Saved& saved, Context& context) const override {
    return real_->backward_input(dy, saved, context);
  }
  void backward_weight(Saved& saved, Context& context) const override {
    real_->backward_weight(saved, context);
    disturb(context);
  }
  Tensor backward(const Tensor& dy, Saved& saved, Context& context) const override {
    forgetful_->forgets = fault_.drops_sums_in_backward;
    Tensor dx = real_->backward(dy, saved, context);
    forgetful_->forgets = false;
    disturb(context);
    return dx;
  }

 private:
  void disturb(Context& context) const {
    if (fault_.after_backward) fault_.after_backward({store_, tensor_group_, context.backend});
  }

  UnitFault fault_;
  const ParameterStore& store_;
  Communicator* tensor_group_;
  std::unique_ptr<ForgetfulCommunicator> forgetful_;
  std::unique_ptr<Module> real_;
};

}  // namespace

ModelDefinition with_fault(ModelDefinition model, const UnitFault& fault) {
  const auto build = model.build_unit;
  model.build_unit = [build, fault](int unit, const ParameterStore& store, const UnitOptions& options) {
    if (unit != fault.unit) return build(unit, store, options);
    Communicator* const group = options.groups.tensor;
    auto forgetful = std::make_unique<ForgetfulCommunicator>(*group);
    UnitOptions inside = options;
    inside.groups.tensor = forgetful.get();
    auto module = std::make_unique<FaultyModule>(fault, store, group, std::move(forgetful));
    module->wrap(build(unit, store, inside));
    return std::unique_ptr<Module>(std::move(module));
  };
  return model;
}

void edit(Backend& backend, const Tensor& x, const std::function<void(std::vector<float>&)>& change) {
  std::vector<float> values = to_host<float>(backend, x);
  change(values);
  backend.upload(std::as_bytes(std::span(values)), x);
}

}  // namespace tessera::test
