// SPDX-License-Identifier: Apache-2.0
#include "framework/ops/optimizer_step.h"

#include "framework/ops/checks.h"

namespace tessera {
namespace {
void check_update(const char* op, const Tensor& master, const Tensor& gradient, const Tensor& value,
                  const Tensor& scalars) {
  CHECK(master.defined() && (master.dtype() == DType::F32 || master.dtype() == DType::F64),
        "{}: the master must be fp32 or fp64", op);
  const int64_t count = master.elements();
  detail::check_packed(op, {master, gradient, value});
  CHECK(gradient.defined() && is_float(gradient.dtype()) && gradient.elements() == count &&
            (gradient.dtype() == DType::F64) == (master.dtype() == DType::F64),
        "{}: a gradient {} for a master {}", op, gradient.defined() ? gradient.describe() : "no tensor",
        master.describe());
  CHECK(value.defined() && is_float(value.dtype()) && value.elements() == count &&
            (value.dtype() == DType::F64) == (master.dtype() == DType::F64),
        "{}: a value {} for a master {}", op, value.defined() ? value.describe() : "no tensor",
        master.describe());
  detail::check_vector(op, "scalars", scalars, DType::F64, 4);
}
}  // namespace

void adamw(Backend& backend, const AdamwArgs& args) {
  check_update("adamw", args.master, args.gradient, args.value, args.scalars);
  detail::check_vector("adamw", "m", args.m, args.master.dtype(), args.master.elements());
  detail::check_vector("adamw", "v", args.v, args.master.dtype(), args.master.elements());
  backend.adamw(args);
}

void sgd(Backend& backend, const SgdArgs& args) {
  check_update("sgd", args.master, args.gradient, args.value, args.scalars);
  CHECK(args.velocity.defined() == (args.momentum != 0), "sgd: momentum {} {} a velocity", args.momentum,
        args.velocity.defined() ? "with" : "without");
  if (args.velocity.defined())
    detail::check_vector("sgd", "velocity", args.velocity, args.master.dtype(), args.master.elements());
  backend.sgd(args);
}

}  // namespace tessera
