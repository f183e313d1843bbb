// The HTTP working group's structured-field-tests. An Idempotency-Key is an Item whose value is a
// String, so of the Items just those are accepted.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "simdjson.h"

#include "source/key/key.h"
#include "source/key/structured_field.h"
#include "test/support/vectors.h"

namespace idempotency::key {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;

constexpr std::string_view Folder = "structured-fields";
constexpr std::string_view Name = "0123456789abcdef";

struct Record {
  std::string name;
  std::string type;              // item, list or dictionary.
  std::vector<std::string> raw;  // Field lines. Empty in the serialisation tests.
  bool must_fail = false;
  bool can_fail = false;
  std::vector<std::string> canonical;  // Same as raw where the file has none.
  element expected;                    // Only where must_fail is false, or for a serialiser.
  bool has_expected = false;

  bool isOneStringItem() const {
    return !must_fail && expected.get_array().value().at(0).is_string();
  }
};

std::vector<std::string> texts(element list) {
  std::vector<std::string> result;
  const array lines = list.get_array().value();
  for (const element text : lines) {
    result.emplace_back(text.get_string().value());
  }
  return result;
}

bool flag(element json, std::string_view name) {
  bool value = false;
  return json[name].get(value) == simdjson::SUCCESS && value;
}

Record makeRecord(std::string_view file, element json) {
  Record record;
  record.name = std::string(file) + ": " + std::string(json["name"].get_string().value());
  record.type = json["header_type"].get_string().value();
  element field;
  if (json["raw"].get(field) == simdjson::SUCCESS) {
    record.raw = texts(field);
  }
  record.must_fail = flag(json, "must_fail");
  record.can_fail = flag(json, "can_fail");
  record.canonical = record.raw;
  if (json["canonical"].get(field) == simdjson::SUCCESS) {
    record.canonical = texts(field);
  }
  record.has_expected = json["expected"].get(record.expected) == simdjson::SUCCESS;
  return record;
}

// Calls `check` for each record of the given type in a folder's files; tells how many there were.
size_t forEachRecord(std::string_view folder, std::string_view type,
                     const std::function<void(const Record&)>& check) {
  size_t count = 0;
  for (const auto& file : vectorFiles(folder)) {
    if (file.extension() != ".json") {
      continue;
    }
    simdjson::dom::parser parser;
    const simdjson::padded_string text(readVector(file));
    const array records = parser.parse(text).get_array().value();
    for (const element json : records) {
      const Record record = makeRecord(file.filename().string(), json);
      if (record.type == type) {
        SCOPED_TRACE(record.name);
        check(record);
        ++count;
      }
    }
  }
  return count;
}

KeyResult parseAnyLength(const std::vector<std::string>& raw) {
  const std::vector<std::string_view> lines(raw.begin(), raw.end());
  return parseKey(lines, {.min_length = 1});
}

void checkAcceptedItem(const Record& record) {
  const std::string_view want = record.expected.get_array().value().at(0).get_string().value();
  ASSERT_EQ(record.raw.size(), 1);
  std::string value(record.raw[0].size(), '\0');
  const StringItem item = parseStringItem(record.raw[0], value);
  ASSERT_EQ(item.status, StringItemStatus::Ok);
  value.resize(item.length);
  EXPECT_EQ(value, want);
  EXPECT_EQ(serializeString(value), record.canonical.at(0));

  const KeyResult result = parseAnyLength(record.raw);
  if (want.empty()) {
    EXPECT_EQ(result, KeyResult(KeyRefusal{KeyProblem::TooShort, 0}));
  } else if (want.size() > KeyLengthLimit) {
    EXPECT_EQ(result, KeyResult(KeyRefusal{KeyProblem::TooLong, want.size()}));
  } else {
    EXPECT_EQ(result, KeyResult(Key(want)));
  }
}

void checkRefusedItem(const Record& record) {
  EXPECT_TRUE(std::holds_alternative<KeyRefusal>(parseAnyLength(record.raw)));
  if (record.raw.size() == 1) {
    EXPECT_NE(parseStringItem(record.raw[0], {}).status, StringItemStatus::Ok);
  }
}

TEST(StructuredFieldVectorsTest, ItemsAreKeysIfTheyAreStrings) {
  size_t accepted = 0;
  const size_t count = forEachRecord(Folder, "item", [&](const Record& record) {
    if (record.isOneStringItem() && record.raw.size() == 1) {
      checkAcceptedItem(record);
      ++accepted;
    } else {
      // Not a String, or in two lines, which the data lets a parser refuse.
      EXPECT_TRUE(record.must_fail || record.raw.size() == 1 || record.can_fail);
      checkRefusedItem(record);
    }
  });
  EXPECT_GE(count, 800);
  EXPECT_GE(accepted, 100);
}

// Every Item may be a parameter's value: `"key";a=ITEM` is an Item just when ITEM is one.
TEST(StructuredFieldVectorsTest, ItemsAreParameterValues) {
  size_t accepted = 0;
  size_t refused = 0;
  forEachRecord(Folder, "item", [&](const Record& record) {
    if (record.raw.size() != 1 || record.can_fail) {
      return;
    }
    std::string_view text = record.raw[0];
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    const std::string line = "\"0123456789abcdef\";a=" + std::string(text);
    const KeyResult result = parseAnyLength({line});
    if (record.must_fail) {
      EXPECT_TRUE(std::holds_alternative<KeyRefusal>(result));
      ++refused;
    } else {
      EXPECT_EQ(result, KeyResult(Key(Name)));
      ++accepted;
    }
  });
  EXPECT_GE(accepted, 400);
  EXPECT_GE(refused, 300);
}

// The list with its first member, a Token or a number, replaced by a String; empty where it starts
// otherwise.
std::string withStringFirst(std::string_view list) {
  const auto is_end = [](char c) { return c == ';' || c == ',' || c == ' ' || c == '\t'; };
  size_t end = 0;
  while (end < list.size() && !is_end(list[end])) {
    if (list[end] == '"' || list[end] == '(') {
      return "";
    }
    ++end;
  }
  return end == 0 ? "" : "\"0123456789abcdef\"" + std::string(list.substr(end));
}

// A list of one plain member is written like an Item with the same parameters.
TEST(StructuredFieldVectorsTest, ListsOfOneMemberAreItems) {
  size_t accepted = 0;
  size_t refused = 0;
  forEachRecord(Folder, "list", [&](const Record& record) {
    if (record.raw.size() != 1) {
      return;
    }
    const std::string line = withStringFirst(record.raw[0]);
    if (line.empty()) {
      return;
    }
    SCOPED_TRACE(line);
    const KeyResult result = parseAnyLength({line});
    if (!record.must_fail && record.expected.get_array().value().size() == 1) {
      EXPECT_EQ(result, KeyResult(Key(Name)));
      ++accepted;
    } else {
      EXPECT_TRUE(std::holds_alternative<KeyRefusal>(result));
      ++refused;
    }
  });
  EXPECT_GE(accepted, 70);
  EXPECT_GE(refused, 190);
}

// The bare item that the data expects. Numbers, dates and the like are compared by their kind only.
void checkBareItem(const BareItem& item, element want) {
  std::string_view text;
  if (want.get(text) == simdjson::SUCCESS) {
    EXPECT_EQ(item, (BareItem{BareItem::Kind::String, std::string(text)}));
  } else if (want["__type"].get(text) == simdjson::SUCCESS && text == "token") {
    EXPECT_EQ(item,
              (BareItem{BareItem::Kind::Token, std::string(want["value"].get_string().value())}));
  } else {
    EXPECT_EQ(item.kind, BareItem::Kind::Other);
  }
}

void checkParameters(const ListMember& member, const array& want) {
  EXPECT_EQ(member.parameters.size(), want.size());
  for (const element parameter : want) {
    const auto name = parameter.get_array().value().at(0).get_string().value();
    const BareItem* value = member.parameter(name);
    ASSERT_NE(value, nullptr) << name;
    checkBareItem(*value, parameter.get_array().value().at(1).value());
  }
}

TEST(StructuredFieldVectorsTest, ListsAreReadAsTheDataSays) {
  size_t accepted = 0;
  size_t refused = 0;
  forEachRecord(Folder, "list", [&](const Record& record) {
    const std::vector<std::string_view> lines(record.raw.begin(), record.raw.end());
    const auto members = parseList(lines);
    if (record.must_fail) {
      EXPECT_EQ(members, std::nullopt);
      ++refused;
      return;
    }
    ASSERT_TRUE(members.has_value() || record.can_fail);
    const array want = record.expected.get_array().value();
    ASSERT_EQ(members->size(), want.size());
    for (size_t i = 0; i < members->size(); ++i) {
      const ListMember& member = (*members)[i];
      const array item_and_parameters = want.at(i).get_array().value();
      const element item = item_and_parameters.at(0).value();
      EXPECT_EQ(member.inner_list, item.is_array());
      if (!member.inner_list) {
        checkBareItem(member.item, item);
      }
      checkParameters(member, item_and_parameters.at(1).get_array().value());
    }
    ++accepted;
  });
  EXPECT_GE(accepted, 90);
  EXPECT_GE(refused, 190);
}

TEST(StructuredFieldVectorsTest, SerialiserRefusesWhatIsNoString) {
  size_t refused = 0;
  forEachRecord("structured-fields/serialisation-tests", "item", [&](const Record& record) {
    if (!record.name.starts_with("string-generated.json")) {
      return;
    }
    ASSERT_TRUE(record.must_fail && record.has_expected);
    const std::string_view value = record.expected.get_array().value().at(0).get_string().value();
    EXPECT_EQ(serializeString(value), std::nullopt);
    ++refused;
  });
  EXPECT_EQ(refused, 33);
}

}  // namespace
}  // namespace idempotency::key
