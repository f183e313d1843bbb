#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "source/envoy/filter.h"
#include "source/filter/backend/backend.h"
#include "source/filter/stats/stat_sink.h"
#include "source/filter/stats/stats.h"
#include "source/filter/stream/response_reader.h"
#include "source/filter/stream/stream_counts.h"
#include "source/filter/stream/trace.h"
#include "source/filter/stream/waiting_runs.h"
#include "source/request/claim_keeper.h"
#include "source/request/detached_run.h"
#include "source/request/running_attempt.h"
#include "source/runtime/admission.h"
#include "source/store/store.h"

namespace idempotency::filter {

// The config of the filter on the private listener. It has no settings: each run has its own
// policy.
class RunConfig : public envoy::FilterFactory {
public:
  RunConfig(envoy::ConfigHandle handle, Stats stats)
      : envoy::FilterFactory(handle),
        stats_(stats),
        lent_(std::make_shared<LentConfig>(handle, stats)) {}
  ~RunConfig() override { lent_->end(); }

  // envoy::FilterFactory
  std::unique_ptr<envoy::Filter> createFilter(envoy::Stream stream) override;

  const Stats& stats() const { return stats_; }
  // So that a backend can count the ending of a run after its own configs are gone.
  const std::shared_ptr<LentConfig>& lent() const { return lent_; }

private:
  const Stats stats_;
  const std::shared_ptr<LentConfig> lent_;
};

// One detached run, on the private listener. Its downstream is this process itself, which reads
// nothing: the connection only keeps the stream alive. The response goes to the client's stream, if
// it still exists; the body here is empty.
//
// As on the client's stream of an attached run, a RunningAttempt judges the response and holds it.
// The response goes to the client when the attempt releases it.
class RunFilter : public envoy::Filter,
                  private request::AttemptStream,
                  private request::ClaimKeeper,
                  private request::RunStream {
public:
  RunFilter(envoy::Stream stream, const RunConfig& config);

  // envoy::Filter
  envoy::HeadersAction onRequestHeaders(bool end) override;
  envoy::BodyAction onRequestBody(bool end) override;
  envoy::TrailersAction onRequestTrailers() override;
  envoy::HeadersAction onResponseHeaders(bool end) override;
  envoy::BodyAction onResponseBody(bool end) override;
  envoy::TrailersAction onResponseTrailers() override;
  envoy::LocalReplyAction onLocalReply(uint32_t code, std::string_view details,
                                       bool reset_imminent) override;
  void onStreamComplete() override;

private:
  // AttemptStream
  request::Post post() override;
  const std::string& keyHash() const override { return run_->keyHash(); }
  void continueResponse() override;
  bool continueWith(const runtime::CompletedRecord& completed) override;
  void onEnding(const protocol::AttemptEnding& ending) override;
  void onWritten(bool stored, store::Deadline since) override;
  void onCompletedByUpstream(store::Deadline since) override;
  void onNoRoomForResponse() override;
  // ClaimKeeper: the backend, except that a redirected claim stays with its run.
  void settle(const runtime::HeldClaim& claim, protocol::Ending ending,
              std::shared_ptr<const runtime::CompletedRecord> completed,
              runtime::OnSettled report) override;
  void passOn(runtime::HeldClaim claim) override;
  void letLeaseEnd(protocol::Attempt attempt) override;
  std::optional<std::chrono::milliseconds> reconcileAfter(
      const std::string& operation) const override;
  // RunStream
  void onClientReady() override;

  // The word for access logs, here and on the client's listener.
  void tellEnding(std::string_view ending);
  // Finds the run that the request's headers name, and takes over its claim and its place.
  bool start();
  // The whole request has arrived; none of it is in transit any more.
  void onRequestEnd();
  std::optional<WaitingRun> findRun() const;
  // --- To the client, if there is one.
  void relayHeaders(bool end);
  // Everything that has arrived. Afterwards the body here is empty.
  void relayBody(bool end);
  void relayTrailers();
  // Everything has been sent to the client, or the client has disconnected.
  void onRelayed(bool has_client);

  const RunConfig& config_;  // Envoy keeps it alive longer than its streams.
  bool local_reply_ = false;
  bool ends_with_headers_ = false;  // The response has no body, not even an empty one.
  bool headers_relayed_ = false;
  bool relayed_ = false;     // The whole response.
  bool tells_client_later_ = false;  // When the claim of a run that was cut short is settled.
  std::string_view ending_;  // One word for access logs.

  std::shared_ptr<Backend> backend_;  // From start() on.
  std::shared_ptr<request::DetachedRun> run_;
  protocol::Attempt connection_ = 0;  // Of the dialer.
  runtime::Admission::Place place_;
  Trace trace_;
  StreamResponse response_;
  std::optional<request::RunningAttempt> attempt_;
};

}  // namespace idempotency::filter
