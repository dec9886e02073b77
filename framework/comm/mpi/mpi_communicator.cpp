// SPDX-License-Identifier: Apache-2.0
// The only source that sees <mpi.h>. The progress thread initialises MPI, makes every call and finalises it.
// MPI_THREAD_SERIALIZED is asked for: calls come from a thread that is not the program's first, one at a
// time; MULTIPLE would only add the library's locks.
#include "framework/comm/mpi/mpi_communicator.h"

// The C interface only: the C++ one was removed from the standard.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <string>

#include "framework/base/check.h"
#include "framework/comm/mpi/message_layer.h"
#include "framework/comm/mpi/message_transport.h"

namespace tessera {

namespace {

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  fail(ExitCode::Communication, "{}: {}", call, std::string(text, static_cast<size_t>(length)));
}

class MpiLayer final : public messages::MessageLayer {
 public:
  MpiLayer() {
    int initialized = 0, provided = 0;
    MPI_Initialized(&initialized);
    CHECK(initialized == 0, "the world of MPI ranks is made once per process");
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    CHECK(provided >= MPI_THREAD_SERIALIZED,
          "this MPI gives thread level {}, at least SERIALIZED ({}) is needed", provided,
          MPI_THREAD_SERIALIZED);
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(world_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(world_, &size_), "MPI_Comm_size");
    void* value = nullptr;
    int found = 0;
    check_mpi(MPI_Comm_get_attr(world_, MPI_TAG_UB, &value, &found), "MPI_Comm_get_attr");
    largest_tag_ = found != 0 ? *static_cast<int*>(value) : 32767;  // what the standard guarantees
    find_nodes();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int64_t largest_tag() const override { return largest_tag_; }
  std::vector<int> nodes() const override { return nodes_; }

  void send(std::span<const std::byte> bytes, int peer, int tag, int64_t id) override {
    check_mpi(MPI_Isend(bytes.data(), messages::checked_count(static_cast<int64_t>(bytes.size())), MPI_BYTE,
                        peer, tag, world_, &add(id)),
              "MPI_Isend");
  }
  void receive(std::span<std::byte> bytes, int peer, int tag, int64_t id) override {
    check_mpi(MPI_Irecv(bytes.data(), messages::checked_count(static_cast<int64_t>(bytes.size())), MPI_BYTE,
                        peer, tag, world_, &add(id)),
              "MPI_Irecv");
  }

  void poll(std::vector<Completed>& completed) override {
    const size_t count = requests_.size();
    indices_.resize(count);
    statuses_.resize(count);
    int finished = 0;
    const int result = MPI_Testsome(messages::checked_count(static_cast<int64_t>(count)), requests_.data(),
                                    &finished, indices_.data(), statuses_.data());
    if (finished == MPI_UNDEFINED) finished = 0;
    for (int i = 0; i < finished; ++i) {
      const MPI_Status& status = statuses_[static_cast<size_t>(i)];
      if (result == MPI_ERR_IN_STATUS) check_mpi(status.MPI_ERROR, "a message failed");
      int bytes = 0;
      check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
      completed.push_back({ids_[static_cast<size_t>(indices_[static_cast<size_t>(i)])], bytes});
    }
    if (result != MPI_ERR_IN_STATUS) check_mpi(result, "MPI_Testsome");
    if (finished > 0) drop_finished();
  }

  void close() override {
    MPI_Comm_free(&world_);
    MPI_Finalize();
  }

  void abort() noexcept override { MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::Communication)); }

 private:
  // A node is where ranks share memory; its number is that of its first rank.
  void find_nodes() {
    MPI_Comm node = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(world_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
              "MPI_Comm_split_type");
    int first = rank_;
    check_mpi(MPI_Bcast(&first, 1, MPI_INT, 0, node), "MPI_Bcast");
    check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
    nodes_.resize(static_cast<size_t>(size_));
    check_mpi(MPI_Allgather(&first, 1, MPI_INT, nodes_.data(), 1, MPI_INT, world_), "MPI_Allgather");
  }

  MPI_Request& add(int64_t id) {
    ids_.push_back(id);
    return requests_.emplace_back(MPI_REQUEST_NULL);
  }

  // Testsome has set the requests that are done to null.
  void drop_finished() {
    size_t kept = 0;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      ids_[kept++] = ids_[i];
    }
    requests_.resize(kept);
    ids_.resize(kept);
  }

  MPI_Comm world_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 0;
  int64_t largest_tag_ = 0;
  std::vector<int> nodes_;  // by rank
  std::vector<MPI_Request> requests_;
  std::vector<int64_t> ids_;  // of the requests
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace

bool mpi_available() {
  return true;
}

std::unique_ptr<Communicator> make_mpi_world(Backend& backend, Patience patience) {
  return messages::make_message_world([] { return std::make_unique<MpiLayer>(); }, backend,
                                      std::move(patience));
}

}  // namespace tessera
