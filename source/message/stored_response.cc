#include "source/message/stored_response.h"

#include <fmt/format.h>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "api/idempotency/v1/stored_response.pb.h"
#include "source/http/status_set.h"
#include "source/message/headers.h"

namespace idempotency::message {
namespace {

using Fields = google::protobuf::RepeatedPtrField<v1::Field>;

constexpr uint32_t MinFinalStatus = 200;
constexpr int MaxFields = 1000;  // Far above what Envoy lets through.

void write(const protocol::FieldList& fields, Fields& target) {
  target.Reserve(static_cast<int>(fields.size()));
  for (const auto& [name, value] : fields) {
    v1::Field& field = *target.Add();
    field.set_name(name);
    field.set_value(value);
  }
}

bool read(Fields& source, protocol::FieldList& target) {
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

std::string serializeResponse(const protocol::StoredResponse& response) {
  v1::StoredResponse message;
  message.set_schema(protocol::ResponseSchema);
  message.set_status(static_cast<uint32_t>(response.status));
  write(response.headers, *message.mutable_headers());
  message.set_body(response.body);
  write(response.trailers, *message.mutable_trailers());
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

absl::StatusOr<protocol::StoredResponse> parseResponse(std::string_view bytes) {
  if (bytes.size() > MaxStoredResponseBytes) {
    return absl::OutOfRangeError(fmt::format("stored response has {} bytes", bytes.size()));
  }
  v1::StoredResponse message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError("stored response cannot be decoded");
  }
  if (message.schema() != protocol::ResponseSchema) {
    return absl::UnimplementedError(
        fmt::format("stored response has schema {}, this build knows {}", message.schema(),
                    protocol::ResponseSchema));
  }
  protocol::StoredResponse response;
  if (message.status() < MinFinalStatus ||
      message.status() > static_cast<uint32_t>(http::MaxStatus)) {
    return absl::DataLossError(fmt::format("stored response has status {}", message.status()));
  }
  response.status = static_cast<int32_t>(message.status());
  if (!read(*message.mutable_headers(), response.headers) ||
      !read(*message.mutable_trailers(), response.trailers)) {
    return absl::DataLossError("stored response has fields that must not be replayed");
  }
  response.body = std::move(*message.mutable_body());
  return response;
}

}  // namespace idempotency::message
