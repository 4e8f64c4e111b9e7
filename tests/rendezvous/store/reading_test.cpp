// A store that is read beside the service that writes it.
#include "rendezvous/store/postgresql/reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/store/engines.h"
#include "tests/rendezvous/store/postgresql_server.h"

namespace holdfast::rendezvous {
namespace {

using testing::HasSubstr;

class ReadingTest : public testing::Test {
 protected:
  void commit_event(const std::string& message) const {
    writer_->begin();
    writer_->add_event({0, 1, "", "", 0, "kind", message, ""});
    writer_->commit();
  }
  std::unique_ptr<StoreReading> open() const { return open_postgresql_reading(database_.address(), "beside"); }

  EngineDatabase database_{Engine::kPostgresql};
  std::unique_ptr<JobStore> writer_ = database_.open();
};

TEST_F(ReadingTest, WhatIsReadIsOfOneMoment) {
  commit_event("first");
  const auto reading = open();
  const ReadMoment before = reading->begin();
  EXPECT_EQ(before.term, 1);
  commit_event("second");
  EXPECT_EQ(reading->store().records().events("", 0, 10).size(), 1u);
  reading->end();
  const ReadMoment after = reading->begin();
  EXPECT_FALSE(after.same_contents(before));
  EXPECT_EQ(reading->store().records().events("", 0, 10).size(), 2u);
  reading->end();
  EXPECT_TRUE(reading->begin().same_contents(after)) << "nothing was committed meanwhile";
  reading->end();
}

TEST_F(ReadingTest, TheServerRefusesEveryWrite) {
  const auto reading = open();
  reading->begin();
  EXPECT_THROW(
      {
        reading->store().add_event({0, 1, "", "", 0, "kind", "no", ""});
        reading->end();
      },
      StoreError);
  EXPECT_TRUE(writer_->records().events("", 0, 10).empty());
}

TEST_F(ReadingTest, TablesOfAnotherVersionAreNotRead) {
  PostgresqlServer::shared().query(database_.address(), "INSERT INTO schema_version VALUES (77)");
  try {
    open();
    FAIL() << "it was opened";
  } catch (const StoreAway& error) {
    EXPECT_THAT(error.what(), HasSubstr("has schema version 77, and this program reads"));
  }
}

}  // namespace
}  // namespace holdfast::rendezvous
