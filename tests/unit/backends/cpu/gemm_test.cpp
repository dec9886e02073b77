// SPDX-License-Identifier: Apache-2.0
// The matrix product against a double-precision reference, and the promise that an element has the same bits
// however the product is cut, on however many threads and on whatever instruction set it is computed.
#include "framework/backends/cpu/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/rounding.h"
#include "tests/unit/backends/cpu/instruction_sets.h"

namespace tessera::cpu {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Numbers in [-1, 1) that depend on the place alone.
double value_at(int64_t i, int64_t j, uint64_t salt) {
  uint64_t x = static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u +
               static_cast<uint64_t>(j) * 0xbf58476d1ce4e5b9u + salt * 0x94d049bb133111ebu;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-52 - 1.0;
}

// Elements of one type in memory of exactly their size, so that a sanitizer sees every step past it.
class Elements {
 public:
  Elements(DType type, int64_t count) : type_(type), bytes_(static_cast<size_t>(count * size_of(type))) {
    memory_ = std::make_unique<unsigned char[]>(bytes_);
    std::memset(memory_.get(), 0xa5, bytes_);
  }
  void* data() { return memory_.get(); }
  void* at(int64_t i) { return memory_.get() + i * size_of(type_); }
  size_t bytes() const { return bytes_; }
  const unsigned char* raw() const { return memory_.get(); }

  double get(int64_t i) const {
    switch (type_) {
      case DType::F64:
        return typed<double>()[i];
      case DType::F32:
        return static_cast<double>(typed<float>()[i]);
      case DType::BF16:
        return static_cast<double>(static_cast<float>(typed<BFloat16>()[i]));
      default:
        return static_cast<double>(static_cast<float>(typed<Float16>()[i]));
    }
  }
  void set(int64_t i, double value) {
    switch (type_) {
      case DType::F64:
        typed<double>()[i] = value;
        break;
      case DType::F32:
        typed<float>()[i] = static_cast<float>(value);
        break;
      case DType::BF16:
        typed<BFloat16>()[i] = BFloat16(static_cast<float>(value));
        break;
      default:
        typed<Float16>()[i] = Float16(static_cast<float>(value));
        break;
    }
  }

 private:
  template <class T>
  T* typed() const {
    return reinterpret_cast<T*>(memory_.get());
  }
  DType type_;
  size_t bytes_;
  std::unique_ptr<unsigned char[]> memory_;
};

struct Types {
  DType in, out;
};
const std::vector<Types> kGemmTypes{{DType::F64, DType::F64},   {DType::F32, DType::F32},
                                    {DType::BF16, DType::BF16}, {DType::BF16, DType::F32},
                                    {DType::F16, DType::F16},   {DType::F16, DType::F32}};

struct Options {
  bool transpose_a = false, transpose_b = false;
  float alpha = 1, beta = 0;
  bool bias = false, derivative = false, multiply = false, add = false;
  Activation activation = Activation::None;
  int threads = 1;
};

// One product with its operands; rows in memory are `gap` elements longer than needed, and what lies in the
// gaps must survive.
class Product {
 public:
  Product(Types types, int64_t m, int64_t n, int64_t k, const Options& options = {})
      : types_(types),
        m_(m),
        n_(n),
        k_(k),
        options_(options),
        lda_((options.transpose_a ? m : k) + kGap),
        ldb_((options.transpose_b ? k : n) + kGap),
        ldc_(n + kGap),
        a_(types.in, area(options.transpose_a ? k : m, lda_)),
        b_(types.in, area(options.transpose_b ? n : k, ldb_)),
        c_(types.out, area(m, ldc_)),
        derivative_(types.out, area(m, ldc_)),
        bias_(types.in, n),
        multiply_(types.in, area(m, ldc_)),
        add_(types.in, area(m, ldc_)) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t p = 0; p < k; ++p) a_.set(a_index(i, p), value_at(i, p, 1));
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) b_.set(b_index(p, j), value_at(p, j, 2));
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        c_.set(i * ldc_ + j, value_at(i, j, 3));
        multiply_.set(i * ldc_ + j, value_at(i, j, 4));
        add_.set(i * ldc_ + j, value_at(i, j, 5));
      }
    for (int64_t j = 0; j < n; ++j) bias_.set(j, value_at(0, j, 6));
  }

  static constexpr int64_t kGap = 3;
  int64_t a_index(int64_t i, int64_t p) const { return options_.transpose_a ? p * lda_ + i : i * lda_ + p; }
  int64_t b_index(int64_t p, int64_t j) const { return options_.transpose_b ? j * ldb_ + p : p * ldb_ + j; }
  int64_t c_index(int64_t i, int64_t j) const { return i * ldc_ + j; }
  Elements& a() { return a_; }
  Elements& b() { return b_; }
  Elements& c() { return c_; }
  Elements& derivative() { return derivative_; }
  Elements& bias() { return bias_; }
  Elements& multiply() { return multiply_; }
  Elements& add() { return add_; }

  // Rows [row, row + rows) and columns [column, column + columns) of c.
  void run(int64_t row, int64_t rows, int64_t column, int64_t columns) {
    GemmArgs args;
    args.m = rows;
    args.n = columns;
    args.k = k_;
    args.a = k_ == 0 ? nullptr : a_.at(a_index(row, 0));
    args.lda = lda_;
    args.transpose_a = options_.transpose_a;
    args.b = k_ == 0 ? nullptr : b_.at(b_index(0, column));
    args.ldb = ldb_;
    args.transpose_b = options_.transpose_b;
    args.type = types_.in;
    args.c = c_.at(c_index(row, column));
    args.ldc = ldc_;
    args.c_type = types_.out;
    args.alpha = options_.alpha;
    args.beta = options_.beta;
    if (options_.bias) args.bias = bias_.at(column);
    args.activation = options_.activation;
    if (options_.derivative) args.derivative = derivative_.at(c_index(row, column));
    if (options_.multiply) args.multiply = multiply_.at(c_index(row, column));
    if (options_.add) args.add = add_.at(c_index(row, column));
    args.ld_add = ldc_;
    args.threads = options_.threads;
    const size_t bytes = static_cast<size_t>(gemm_workspace_bytes(args));
    const std::unique_ptr<void, void (*)(void*)> workspace(std::aligned_alloc(64, bytes + 64), std::free);
    // Sums must not depend on what was there; and nothing past the promised size is written.
    std::memset(workspace.get(), 0xff, bytes + 64);
    args.workspace = workspace.get();
    gemm(args);
    const unsigned char* guard = static_cast<unsigned char*>(workspace.get()) + bytes;
    ASSERT_TRUE(std::all_of(guard, guard + 64, [](unsigned char x) { return x == 0xff; }));
  }
  void run() { run(0, m_, 0, n_); }

 private:
  // The last row ends where its elements end.
  static int64_t area(int64_t rows, int64_t stride) { return std::max<int64_t>(rows * stride - kGap, 0); }

  Types types_;
  int64_t m_, n_, k_;
  Options options_;
  int64_t lda_, ldb_, ldc_;
  Elements a_, b_, c_, derivative_, bias_, multiply_, add_;
};

// Sums of products and of their sizes, [m, n], of every row_step-th row.
struct Reference {
  std::vector<double> sums, sizes;
};
Reference reference(Product& product, int64_t m, int64_t n, int64_t k, int64_t row_step = 1) {
  Reference result{std::vector<double>(static_cast<size_t>(m * n)),
                   std::vector<double>(static_cast<size_t>(m * n))};
  std::vector<double> row(static_cast<size_t>(n));
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t j = 0; j < n; ++j) row[static_cast<size_t>(j)] = product.b().get(product.b_index(p, j));
    for (int64_t i = 0; i < m; i += row_step) {
      const double x = product.a().get(product.a_index(i, p));
      for (int64_t j = 0; j < n; ++j) {
        result.sums[static_cast<size_t>(i * n + j)] += x * row[static_cast<size_t>(j)];
        result.sizes[static_cast<size_t>(i * n + j)] += std::fabs(x * row[static_cast<size_t>(j)]);
      }
    }
  }
  return result;
}

// A chain of at most 384 fused multiply-adds rounds once per link, then the blocks are added, then the
// result is stored. In double the reference is no better than the product.
double bound(Types types, int64_t k, double size, double value) {
  const DType accumulator = types.in == DType::F64 ? DType::F64 : DType::F32;
  const double links = static_cast<double>(std::min<int64_t>(k, 384) + k / 384 + 1);
  const double reference_links = types.in == DType::F64 ? static_cast<double>(k) : 0;
  const double tiny = types.out == DType::F16 ? 0x1p-25 : 0;  // half the least subnormal
  return test::unit_roundoff(accumulator) * (links + reference_links) * size +
         test::unit_roundoff(types.out) * std::fabs(value) * 1.01 + tiny;
}

void expect_matches(Product& product, const Reference& want, Types types, int64_t m, int64_t n, int64_t k,
                    int64_t row_step = 1) {
  for (int64_t i = 0; i < m; i += row_step)
    for (int64_t j = 0; j < n; ++j) {
      const size_t place = static_cast<size_t>(i * n + j);
      const double got = product.c().get(product.c_index(i, j));
      ASSERT_LE(std::fabs(got - want.sums[place]), bound(types, k, want.sizes[place], want.sums[place]))
          << "at " << i << ", " << j << " of " << m << " x " << n << " x " << k << ": got " << got
          << ", want " << want.sums[place];
    }
}

const std::vector<int64_t> kSizes{1, 2, 3, 7, 15, 16, 17, 31, 63, 100, 257};

class GemmTypes : public testing::TestWithParam<Types> {};

TEST_P(GemmTypes, MatchesTheReferenceForAllTransposesAndOddSizes) {
  for (size_t mi = 0; mi < kSizes.size(); ++mi)
    for (size_t ni = 0; ni < kSizes.size(); ++ni) {
      const int64_t m = kSizes[mi], n = kSizes[ni], k = kSizes[(mi + 3 * ni) % kSizes.size()];
      Reference want;
      for (const bool transpose_a : {false, true})
        for (const bool transpose_b : {false, true}) {
          Product product(GetParam(), m, n, k, {.transpose_a = transpose_a, .transpose_b = transpose_b});
          if (want.sums.empty()) want = reference(product, m, n, k);
          product.run();
          ASSERT_NO_FATAL_FAILURE(expect_matches(product, want, GetParam(), m, n, k))
              << "transposes " << transpose_a << transpose_b;
        }
    }
}

TEST_P(GemmTypes, MatchesTheReferenceForEachLengthOfTheSum) {
  const int64_t m = 19, n = 70;
  for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{4}, int64_t{15}, int64_t{383}, int64_t{384},
                          int64_t{385}, int64_t{769}, int64_t{1153}}) {
    Reference want;
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        Product product(GetParam(), m, n, k, {.transpose_a = transpose_a, .transpose_b = transpose_b});
        if (want.sums.empty()) want = reference(product, m, n, k);
        product.run();
        ASSERT_NO_FATAL_FAILURE(expect_matches(product, want, GetParam(), m, n, k))
            << "transposes " << transpose_a << transpose_b;
      }
  }
}

// More rows than one block of partial sums, more columns than one packed block.
TEST_P(GemmTypes, MatchesTheReferenceBeyondOneBlock) {
  const int64_t m = 1037, n = 821, k = 401;
  Product product(GetParam(), m, n, k, {.transpose_b = true, .threads = 2});
  const Reference want = reference(product, m, n, k, 37);
  product.run();
  expect_matches(product, want, GetParam(), m, n, k, 37);
}

TEST_P(GemmTypes, LeavesEverythingAroundTheOutputAlone) {
  for (const int64_t n : {int64_t{1}, int64_t{17}, int64_t{48}, int64_t{99}}) {
    const int64_t m = 21;
    Product product(GetParam(), m, n, 400,
                    {.derivative = true, .activation = Activation::Silu, .threads = 2});
    product.run(2, m - 4, 0, n);
    for (Elements* out : {&product.c(), &product.derivative()}) {
      const Product untouched(GetParam(), m, n, 400);
      const Elements& before = out == &product.c() ? const_cast<Product&>(untouched).c()
                                                   : const_cast<Product&>(untouched).derivative();
      const size_t element = static_cast<size_t>(size_of(GetParam().out));
      for (size_t byte = 0; byte < out->bytes(); ++byte) {
        const auto index = static_cast<int64_t>(byte / element);
        const int64_t i = index / (n + Product::kGap), j = index % (n + Product::kGap);
        if (i >= 2 && i < m - 2 && j < n) continue;
        ASSERT_EQ(out->raw()[byte], before.raw()[byte]) << "row " << i << ", column " << j << ", n " << n;
      }
    }
  }
}

TEST_P(GemmTypes, IgnoresTheOldOutputWhenBetaIsZero) {
  for (const int64_t k : {int64_t{0}, int64_t{5}, int64_t{900}}) {
    Product product(GetParam(), 9, 50, k);
    const Reference want = reference(product, 9, 50, k);
    for (int64_t i = 0; i < 9; ++i)
      for (int64_t j = 0; j < 50; ++j) product.c().set(product.c_index(i, j), kNan);
    product.run();
    expect_matches(product, want, GetParam(), 9, 50, k);
  }
}

TEST_P(GemmTypes, ScalesAndAccumulates) {
  const int64_t m = 13, n = 53;
  for (const int64_t k : {int64_t{0}, int64_t{37}, int64_t{900}})
    for (const float alpha : {1.0f, -0.75f})
      for (const float beta : {1.0f, 0.5f}) {
        Product product(GetParam(), m, n, k, {.alpha = alpha, .beta = beta, .threads = 2});
        Reference want = reference(product, m, n, k);
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            const size_t place = static_cast<size_t>(i * n + j);
            const double old = product.c().get(product.c_index(i, j));
            want.sums[place] =
                static_cast<double>(alpha) * want.sums[place] + static_cast<double>(beta) * old;
            want.sizes[place] = want.sizes[place] + 2 * std::fabs(old);
          }
        product.run();
        ASSERT_NO_FATAL_FAILURE(expect_matches(product, want, GetParam(), m, n, std::max<int64_t>(k, 1)))
            << "alpha " << alpha << " beta " << beta;
      }
}

double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::None:
      return x;
    case Activation::Gelu:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case Activation::GeluTanh:
      return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::Silu:
      return x / (1 + std::exp(-x));
    case Activation::Relu:
      return std::max(x, 0.0);
  }
  return x;
}

TEST_P(GemmTypes, AppliesBiasActivationFactorAndResidualInThisOrder) {
  const int64_t m = 11, n = 67;
  for (const int64_t k : {int64_t{0}, int64_t{64}, int64_t{500}})
    for (const Activation activation :
         {Activation::None, Activation::Gelu, Activation::GeluTanh, Activation::Silu, Activation::Relu})
      for (int stages = 0; stages < 8; ++stages) {
        Product product(GetParam(), m, n, k,
                        {.transpose_b = true,
                         .bias = (stages & 1) != 0,
                         .derivative = true,
                         .multiply = (stages & 2) != 0,
                         .add = (stages & 4) != 0,
                         .activation = activation,
                         .threads = 2});
        const Reference want = reference(product, m, n, k);
        product.run();
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            const size_t place = static_cast<size_t>(i * n + j);
            const int64_t index = product.c_index(i, j);
            double size = want.sizes[place] + 1, x = want.sums[place];
            if (stages & 1) x += product.bias().get(j);
            double y = activated(activation, x);
            // Central difference at a distance that balances its two errors.
            const double h = 1e-5;
            const double slope = (activated(activation, x + h) - activated(activation, x - h)) / (2 * h);
            // Slopes and second derivatives of these curves stay below 1.2.
            const double error = 1.2 * bound(GetParam(), std::max<int64_t>(k, 8), size, 0);
            if (std::fabs(x) > error + h || activation != Activation::Relu) {
              ASSERT_NEAR(product.derivative().get(index), slope,
                          error + test::unit_roundoff(GetParam().out) * 1.2 + 1e-9)
                  << "x = " << x << " activation " << static_cast<int>(activation);
            }
            if (stages & 2) y *= product.multiply().get(index);
            if (stages & 4) y += product.add().get(index);
            ASSERT_NEAR(product.c().get(index), y,
                        error + test::unit_roundoff(GetParam().out) * std::fabs(y) * 1.01 + 1e-12)
                << "x = " << x << " stages " << stages << " activation " << static_cast<int>(activation);
          }
      }
}

TEST_P(GemmTypes, PassesNotANumberAndInfinityOnToTheirRowAndColumnOnly) {
  const int64_t m = 21, n = 67, k = 390;
  for (const double special : {kNan, kInfinity})
    for (const bool transpose_a : {false, true}) {
      Product product(GetParam(), m, n, k, {.transpose_a = transpose_a, .transpose_b = !transpose_a});
      product.a().set(product.a_index(20, 389), special);
      product.b().set(product.b_index(7, 66), special);
      // An exact zero in the row of the infinity in b: 0 * infinity is NaN, and only there.
      product.a().set(product.a_index(3, 7), 0);
      product.run();
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          const double got = product.c().get(product.c_index(i, j));
          ASSERT_EQ(std::isfinite(got), i != 20 && j != 66) << i << ", " << j << ": " << got;
          if (std::isnan(special) && !std::isfinite(got)) {
            ASSERT_TRUE(std::isnan(got));
          }
        }
      ASSERT_TRUE(std::isnan(product.c().get(product.c_index(3, 66))));
    }
}

// The three products of a linear layer: x W^T, dy W, dy^T x, each with an epilogue.
const std::vector<Options> kLayerProducts{
    {.transpose_b = true, .bias = true, .derivative = true, .activation = Activation::Gelu},
    {.multiply = true, .add = true},
    {.transpose_a = true, .beta = 1}};

TEST_P(GemmTypes, GivesTheSameBitsHoweverRowsAndColumnsAreCut) {
  const int64_t m = 62, n = 107, k = 417;
  for (const Options& options : kLayerProducts) {
    Product whole(GetParam(), m, n, k, options);
    whole.run();
    for (const int64_t parts : {int64_t{2}, int64_t{3}, int64_t{4}, int64_t{7}, int64_t{8}, int64_t{16}, m})
      for (const bool by_rows : {true, false}) {
        Product cut(GetParam(), m, n, k, options);
        const int64_t length = by_rows ? m : n;
        for (int64_t part = 0; part < parts; ++part) {
          const int64_t begin = length * part / parts, end = length * (part + 1) / parts;
          if (by_rows)
            cut.run(begin, end - begin, 0, n);
          else
            cut.run(0, m, begin, end - begin);
        }
        ASSERT_EQ(std::memcmp(whole.c().raw(), cut.c().raw(), whole.c().bytes()), 0)
            << parts << (by_rows ? " parts of rows" : " parts of columns");
        ASSERT_EQ(std::memcmp(whole.derivative().raw(), cut.derivative().raw(), whole.c().bytes()), 0);
      }
  }
}

TEST_P(GemmTypes, GivesTheSameBitsOnAnyNumberOfThreads) {
  for (Options options : kLayerProducts) {
    Product one(GetParam(), 123, 211, 417, options);
    one.run();
    for (const int threads : {2, 3, 5, 8}) {
      options.threads = threads;
      Product many(GetParam(), 123, 211, 417, options);
      many.run();
      ASSERT_EQ(std::memcmp(one.c().raw(), many.c().raw(), one.c().bytes()), 0) << threads << " threads";
      ASSERT_EQ(std::memcmp(one.derivative().raw(), many.derivative().raw(), one.c().bytes()), 0);
    }
  }
}

TEST_P(GemmTypes, GivesTheSameBitsOnEveryInstructionSet) {
  for (const Options& options : kLayerProducts) {
    std::unique_ptr<Product> best;
    for (const int64_t set : instruction_sets()) {
      const InstructionSet chosen(set);
      auto product = std::make_unique<Product>(GetParam(), 45, 99, 417, options);
      product->run();
      if (!best) {
        best = std::move(product);
        continue;
      }
      ASSERT_EQ(std::memcmp(best->c().raw(), product->c().raw(), best->c().bytes()), 0)
          << hwy::TargetName(set);
      ASSERT_EQ(std::memcmp(best->derivative().raw(), product->derivative().raw(), best->c().bytes()), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GemmTypes, testing::ValuesIn(kGemmTypes), [](const auto& info) {
  return std::string(name_of(info.param.in)) + "_to_" + std::string(name_of(info.param.out));
});

TEST(Gemm, ComputesNothingWithoutRowsOrColumns) {
  for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{{0, 5}, {5, 0}, {0, 0}}) {
    GemmArgs args;
    args.m = m;
    args.n = args.ldb = args.ldc = n;
    args.k = args.lda = 7;
    EXPECT_EQ(gemm_workspace_bytes(args), 0);
    gemm(args);  // with null pointers everywhere
  }
}

TEST(Gemm, PredictsItsWorkspaceFromSizesAlone) {
  GemmArgs args;
  args.m = args.lda = 2048;
  args.n = args.ldb = args.ldc = 8192;
  args.k = 384;
  const int64_t one = gemm_workspace_bytes(args);
  EXPECT_EQ(one % 64, 0);
  EXPECT_LE(one, int64_t{2} << 20);
  args.threads = 4;
  EXPECT_LE(gemm_workspace_bytes(args), 4 * one);
  args.threads = 1;
  args.k = int64_t{1} << 20;
  EXPECT_EQ(gemm_workspace_bytes(args), one);
  args.type = args.c_type = DType::BF16;
  EXPECT_LE(gemm_workspace_bytes(args), int64_t{5} << 20);
  // Sizes whose bytes do not fit 32 bits.
  args.m = args.n = int64_t{1} << 33;
  EXPECT_LE(gemm_workspace_bytes(args), int64_t{5} << 20);
  EXPECT_GT(gemm_workspace_bytes(args), 0);
}

TEST(Gemm, RefusesTypesItHasNoKernelFor) {
  GemmArgs args;
  args.m = args.n = args.k = args.lda = args.ldb = args.ldc = 1;
  args.type = args.c_type = DType::I32;
  EXPECT_THROW(gemm(args), Error);
  args.type = DType::F32;
  args.c_type = DType::BF16;
  EXPECT_THROW(gemm(args), Error);
}

}  // namespace
}  // namespace tessera::cpu
