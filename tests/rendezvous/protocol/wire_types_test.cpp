#include "rendezvous/protocol/wire_types.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "rendezvous/protocol/job_spec.h"

namespace holdfast::rendezvous {
namespace {

TEST(WireTypes, AJobMayHaveEachTypeWithItsOwnReductionOnly) {
  for (const WireTypeRow& row : kWireTypes) {
    for (const char* reduction : {"exact", "float"}) {
      const nlohmann::json spec = {{"train_data_path", "x"}, {"reduction", reduction}, {"wire_dtype", row.name}};
      EXPECT_EQ(parse_job_spec(spec).has_value(), row.reduction == reduction) << row.name << " with " << reduction;
    }
  }
}

TEST(WireTypes, TheFirstOfAReductionIsItsDefault) {
  EXPECT_EQ(default_wire_type("exact")->name, "int32");
  EXPECT_EQ(default_wire_type("float")->name, "float32");
  EXPECT_EQ(default_wire_type("none"), nullptr);
}

TEST(WireTypes, AnUnknownNameIsNotFound) {
  EXPECT_EQ(find_wire_type("int4"), nullptr);
}

TEST(WireTypes, TheJobSpecsFieldNamesThemAll) {
  const auto fields = job_spec_fields();
  const auto field = std::ranges::find(fields, "wire_dtype", &SpecField::name);
  ASSERT_NE(field, fields.end());
  EXPECT_EQ(field->choices, wire_type_names());
  EXPECT_EQ(field->help,
            "Type of gradients on the wire: int32 or int16 for exact; float32, bfloat16, float16 or int8 for float");
  EXPECT_EQ(field->default_value, "int32 for exact, float32 for float");
}

}  // namespace
}  // namespace holdfast::rendezvous
