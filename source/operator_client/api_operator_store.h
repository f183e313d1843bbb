#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "source/operator_api/decode.h"
#include "source/operator_client/access.h"
#include "source/operator_client/http_client.h"
#include "source/store/operator_store.h"

namespace idempotency::operator_client {

// A store behind the operators' API of an Envoy. What differs from a store of one's own:
//   - The server knows who makes a change; OperatorChange::actor and Purge::actor are not sent.
//   - A response that the server does not show is ListedRecord::withheld_response.
//   - Only an operator's own actions: takeDue() and GiveUp are Unimplemented.
//   - A page of more than MaxPageLimit is put together from several requests.
// Where an identity is known, it is asked for by the record's id. Only a key without its tenant and
// operation, and the audit of a record that is gone, are asked for with the key in the URL.
class ApiOperatorStore : public store::OperatorStore {
public:
  // Asks nothing yet. InvalidArgument, here or from a call: the access cannot be used.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ApiOperatorStore>> open(
      const ApiAccess& access);

  absl::StatusOr<store::RecordPage> list(const store::RecordFilter& filter,
                                         const std::optional<protocol::Identity>& after,
                                         uint32_t limit) override;
  absl::StatusOr<std::optional<store::ListedRecord>> find(
      const protocol::Identity& identity) override;
  absl::StatusOr<store::AuditPage> audit(const store::AuditFilter& filter,
                                         std::optional<int64_t> before, uint32_t limit) override;
  absl::StatusOr<store::ChangeResult> change(const store::OperatorChange& change) override;
  absl::StatusOr<store::PurgeResult> purge(const store::Purge& purge, uint32_t limit) override;
  absl::StatusOr<store::Summary> summary() override;
  absl::StatusOr<std::vector<store::UnsettledUse>> unsettled() override;
  absl::StatusOr<std::vector<store::DueRecord>> takeDue(const store::OperationSet& operations,
                                                        std::chrono::milliseconds hold,
                                                        uint32_t limit) override;

private:
  explicit ApiOperatorStore(std::unique_ptr<HttpClient> client) : client_(std::move(client)) {}

  absl::Status error(const std::string& what) const;
  absl::Status error(const NoAnswer& none) const;
  absl::Status doubtful(const std::string& what, bool dry_run) const;
  absl::StatusOr<std::string> read(const std::string& path);
  absl::StatusOr<store::RecordPage> listOne(const store::RecordFilter& filter,
                                            const protocol::Identity& identity);
  absl::StatusOr<store::AuditPage> auditByQuery(const store::AuditFilter& filter,
                                                std::optional<int64_t> before, uint32_t limit);
  absl::StatusOr<std::optional<store::AuditPage>> timelineOf(const store::AuditFilter& filter);
  template <class Result>
  absl::StatusOr<Result> decoded(absl::StatusOr<Result> result) const;
  absl::StatusOr<HttpAnswer> write(const std::string& path, const std::string& json, bool dry_run);
  absl::Status refused(const HttpAnswer& answer, bool dry_run) const;

  const std::unique_ptr<HttpClient> client_;
  // What came with the record that was found last; used once, and never after a change.
  std::optional<std::pair<protocol::Identity, store::AuditPage>> timeline_;
};

}  // namespace idempotency::operator_client
