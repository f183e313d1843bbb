#include "source/protocol/stored_response.h"

#include <fmt/format.h>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "api/idempotency/v1/record.pb.h"
#include "source/protocol/headers.h"
#include "source/protocol/status_set.h"

namespace idempotency {
namespace {

using Fields = google::protobuf::RepeatedPtrField<v1::Field>;

constexpr uint32_t MinFinalStatus = 200;
constexpr int MaxFields = 1000;  // Far above what Envoy lets through.

void write(const FieldList& fields, Fields& target) {
  target.Reserve(static_cast<int>(fields.size()));
  for (const auto& [name, value] : fields) {
    v1::Field& field = *target.Add();
    field.set_name(name);
    field.set_value(value);
  }
}

bool read(Fields& source, FieldList& target) {
  if (source.size() > MaxFields) {
    return false;
  }
  target.reserve(static_cast<size_t>(source.size()));
  for (v1::Field& field : source) {
    if (!isSafeField(field.name(), field.value())) {
      return false;
    }
    target.emplace_back(std::move(*field.mutable_name()), std::move(*field.mutable_value()));
  }
  return true;
}

}  // namespace

std::string serializeResponse(const StoredResponse& response) {
  v1::Record record;
  record.set_schema(RecordSchema);
  record.set_status(static_cast<uint32_t>(response.status));
  write(response.headers, *record.mutable_headers());
  record.set_body(response.body);
  write(response.trailers, *record.mutable_trailers());
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    record.SerializeToCodedStream(&coded);
  }
  return bytes;
}

absl::StatusOr<StoredResponse> parseResponse(std::string_view bytes) {
  if (bytes.size() > MaxRecordBytes) {
    return absl::OutOfRangeError(fmt::format("stored response has {} bytes", bytes.size()));
  }
  v1::Record record;
  if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError("stored response cannot be decoded");
  }
  if (record.schema() != RecordSchema) {
    return absl::UnimplementedError(fmt::format(
        "stored response has schema {}, this build knows {}", record.schema(), RecordSchema));
  }
  StoredResponse response;
  if (record.status() < MinFinalStatus || record.status() > static_cast<uint32_t>(MaxStatus)) {
    return absl::DataLossError(fmt::format("stored response has status {}", record.status()));
  }
  response.status = static_cast<int32_t>(record.status());
  if (!read(*record.mutable_headers(), response.headers) ||
      !read(*record.mutable_trailers(), response.trailers)) {
    return absl::DataLossError("stored response has fields that must not be replayed");
  }
  response.body = std::move(*record.mutable_body());
  return response;
}

}  // namespace idempotency
