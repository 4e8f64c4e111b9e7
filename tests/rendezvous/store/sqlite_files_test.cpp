// A database whose file is removed or replaced below the open store. The store notices, refuses writes, and saves its rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "rendezvous/store/sqlite/backup.h"
#include "rendezvous/store/sqlite/rescue.h"
#include "rendezvous/store/sqlite/store.h"

namespace holdfast::rendezvous {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class FilesTest : public testing::Test {
 protected:
  FilesTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    store_ = open_sqlite_store(path_);
    keep("first");
  }
  ~FilesTest() override {
    store_.reset();
    fs::remove_all(folder_);
  }
  static std::string name() { return testing::UnitTest::GetInstance()->current_test_info()->name(); }

  void keep(const std::string& message) {
    store_->begin();
    store_->add_event({0, 1, "", "", 0, "kind", message, ""});
    store_->commit();
  }
  // The store's error when it is to keep something; "" for none.
  std::string refusal() {
    return refusal_of([this] { keep("refused"); });
  }
  template <typename Work>
  static std::string refusal_of(const Work& work) {
    try {
      work();
    } catch (const StoreError& error) {
      return error.what();
    }
    return "";
  }
  static std::vector<std::string> messages_in(JobStore& store) {
    std::vector<std::string> messages;
    for (const EventRow& row : store.records().events("", 0, 100)) messages.push_back(row.message);
    return messages;
  }
  static std::vector<std::string> messages_in(const std::string& database) {
    const auto store = open_sqlite_store(database);
    return messages_in(*store);
  }
  std::vector<std::string> rescued() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().filename().string().starts_with("holdfast.rescued-")) found.push_back(entry.path().string());
    }
    return found;
  }
  static std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  const std::string folder_ = testing::TempDir() + "holdfast-files-" + std::to_string(getpid()) + "-" + name();
  const std::string path_ = folder_ + "/holdfast.sqlite";
  std::unique_ptr<JobStore> store_;
};

TEST_F(FilesTest, ARemovedDatabaseIsSavedAndTakesNoMoreRows) {
  fs::remove(path_);
  const std::string why = refusal();
  ASSERT_EQ(rescued().size(), 1u);
  const std::string copy = rescued()[0];
  EXPECT_THAT(why, HasSubstr(path_ + " was removed while the service ran with it"));
  EXPECT_THAT(why, HasSubstr("holdfast restore " + copy + " --data_dir " + folder_));
  EXPECT_EQ(inspect_database(copy).events, 1);
  EXPECT_THAT(messages_in(copy), ElementsAre("first"));
}

TEST_F(FilesTest, NoStoreIsOpenedThereBeforeAPersonHasDecided) {
  fs::remove(path_);
  const std::string why = refusal();
  store_.reset();
  EXPECT_EQ(refusal_of([this] { open_sqlite_store(path_); }), why);
  EXPECT_FALSE(fs::exists(path_)) << "a service that began with no jobs would tell all workers to drop theirs";
  remove_lost_mark(path_);
  EXPECT_THAT(messages_in(path_), ElementsAre());
}

TEST_F(FilesTest, AnotherFileInItsPlaceIsNotTouched) {
  const std::string other = folder_ + "/other.sqlite";
  {
    const auto store = open_sqlite_store(other);
    store->begin();
    store->add_event({0, 1, "", "", 0, "kind", "of another", ""});
    store->commit();
  }
  const std::string bytes = bytes_of(other);
  fs::rename(other, path_);
  EXPECT_THAT(refusal(), HasSubstr(path_ + " was replaced by another file"));
  store_.reset();
  EXPECT_EQ(bytes_of(path_), bytes);
  ASSERT_EQ(rescued().size(), 1u);
  EXPECT_THAT(messages_in(rescued()[0]), ElementsAre("first"));
  remove_lost_mark(path_);
  EXPECT_THAT(messages_in(path_), ElementsAre("of another")) << "the log of the other one was not taken for its own";
}

TEST_F(FilesTest, AMovedDatabaseIsWholeInItsNewPlace) {
  fs::rename(path_, folder_ + "/aside.sqlite");
  EXPECT_NE(refusal(), "");
  store_.reset();
  EXPECT_THAT(messages_in(folder_ + "/aside.sqlite"), ElementsAre("first"));
}

TEST_F(FilesTest, ARemovedLogCostsNothing) {
  for (const char* beside : {"-wal", "-shm"}) {
    fs::remove(path_ + beside);
    EXPECT_THAT(refusal(), HasSubstr("nothing is lost"));
    store_ = nullptr;
    store_ = open_sqlite_store(path_);
    EXPECT_THAT(messages_in(*store_), ElementsAre("first")) << beside;
  }
  EXPECT_THAT(rescued(), ElementsAre());
  keep("second");
}

TEST_F(FilesTest, ALogOfAnotherDatabaseIsNotRead) {
  std::ofstream(folder_ + "/other") << "something";
  fs::rename(folder_ + "/other", path_ + "-wal");
  EXPECT_THAT(refusal(), HasSubstr(path_ + "-wal was replaced by another file"));
  ASSERT_EQ(rescued().size(), 1u);
  EXPECT_THAT(messages_in(rescued()[0]), ElementsAre("first"));
}

TEST_F(FilesTest, AStoreThatIsAskedNoticesEvenWithoutAWrite) {
  EXPECT_EQ(refusal_of([this] { store_->check_files(); }), "");
  fs::remove(path_);
  EXPECT_NE(refusal_of([this] { store_->check_files(); }), "");
  EXPECT_EQ(rescued().size(), 1u);
}

TEST_F(FilesTest, AStoreThatIsClosedBeforeItNoticesSavesItsRows) {
  fs::remove(path_);
  store_.reset();
  ASSERT_EQ(rescued().size(), 1u);
  EXPECT_THAT(messages_in(rescued()[0]), ElementsAre("first"));
}

TEST_F(FilesTest, AFolderInItsPlaceIsNamedWithWhatToDo) {
  const std::string path = folder_ + "/folder.sqlite";
  fs::create_directory(path);
  EXPECT_EQ(refusal_of([&] { open_sqlite_store(path); }),
            "cannot open the database " + path + ": a folder has its name: move it away, or name another data directory");
}

TEST_F(FilesTest, AStoreThatCannotSaveItsRowsSaysSo) {
  fs::remove_all(folder_);
  EXPECT_THAT(refusal(), HasSubstr("could not be saved"));
}

}  // namespace
}  // namespace holdfast::rendezvous
