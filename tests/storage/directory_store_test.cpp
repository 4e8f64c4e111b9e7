// The folder store on the real file system: keys, listing, a full disk, folders that vanish, and many writers and removers at
// the same time.
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "storage/file_system.h"
#include "tests/storage/checks.h"
#include "tests/storage/faulty_file_system.h"
#include "tests/storage/temporary_folder.h"

namespace holdfast::storage::testing {
namespace {

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class DirectoryStoreTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::unique_ptr<ObjectStore> store_ = std::move(*open_directory_store(folder_.path() + "/a/b"));
};

TEST(Keys, ArePathsOfPlainNames) {
  for (const char* key : {"a", "a/b", "step-0000000060/shard-0000.hfs", "A_Z/0.9-x", "a/b/c/d"})
    EXPECT_TRUE(valid_key(key)) << key;
  for (const char* key :
       {"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", ".tmp-a", "a/.tmp-b", "a b", "a\\b", "ä", "a\n", "a:b"}) {
    EXPECT_FALSE(valid_key(key)) << key;
  }
  EXPECT_FALSE(valid_key(std::string(201, 'a')));
  EXPECT_FALSE(valid_key(std::string("a\0b", 3)));
}

TEST_F(DirectoryStoreTest, HoldsWhatWasPut) {
  ASSERT_TRUE(ok(store_->put("x/y", bytes_of("one"))));
  ASSERT_TRUE(ok(store_->put("x/y", bytes_of("two"))));
  ASSERT_TRUE(ok(store_->put("z", {})));
  EXPECT_EQ(store_->get("x/y").value(), bytes_of("two"));
  EXPECT_TRUE(store_->get("z")->empty());
  EXPECT_EQ(folder_.read_file("a/b/x/y"), "two");
  EXPECT_EQ(store_->describe(), folder_.path() + "/a/b");
}

TEST_F(DirectoryStoreTest, HoldsWhatWasPutInTheBackground) {
  const auto background = std::move(
      *open_directory_store(folder_.path() + "/a/b", MissingFolder::kFail, posix_file_system(Writing::kInBackground)));
  Bytes large((5 << 20) / 2);  // several writes, the last one smaller
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::byte>(i * i >> 7);
  ASSERT_TRUE(ok(background->put("x/large", large)));
  ASSERT_TRUE(ok(background->put("x/empty", {})));
  EXPECT_EQ(store_->get("x/large").value(), large);
  EXPECT_TRUE(store_->get("x/empty")->empty());
}

TEST_F(DirectoryStoreTest, RefusesNamesThatAreNotKeys) {
  for (const char* key : {"../outside", "/etc/passwd", "", ".tmp-a"}) {
    EXPECT_EQ(store_->put(key, {}).error().code, Error::Code::kRefused);
    EXPECT_EQ(store_->get(key).error().code, Error::Code::kRefused);
    EXPECT_EQ(store_->remove(key).error().code, Error::Code::kRefused);
  }
}

TEST_F(DirectoryStoreTest, ListsKeysByPrefixAndPassesOverTemporariesAndStrangers) {
  for (const char* key : {"step-1/a", "step-1/b", "step-12/a", "top"}) ASSERT_TRUE(ok(store_->put(key, {})));
  folder_.write_file("a/b/step-1/.tmp-0011223344556677", "half");
  folder_.write_file("a/b/not a key", "x");
  ASSERT_EQ(::symlink("/", (folder_.path() + "/a/b/root").c_str()), 0);
  using Keys = std::vector<std::string>;
  EXPECT_EQ(store_->list("").value(), (Keys{"step-1/a", "step-1/b", "step-12/a", "top"}));
  EXPECT_EQ(store_->list("step-1").value(), (Keys{"step-1/a", "step-1/b", "step-12/a"}));
  EXPECT_EQ(store_->list("step-1/").value(), (Keys{"step-1/a", "step-1/b"}));
  EXPECT_EQ(store_->list("step-1/b").value(), (Keys{"step-1/b"}));
  EXPECT_EQ(store_->list("../").value(), Keys{});
}

TEST_F(DirectoryStoreTest, RemovesOnceAndAgain) {
  ASSERT_TRUE(ok(store_->put("x/y/z", bytes_of("one"))));
  EXPECT_TRUE(ok(store_->remove("x/y/z")));
  EXPECT_TRUE(ok(store_->remove("x/y/z")));
  EXPECT_TRUE(ok(store_->remove("never/there")));
  EXPECT_EQ(store_->get("x/y/z").error().code, Error::Code::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/a/b/x")) << "empty folders go too";
}

TEST_F(DirectoryStoreTest, SaysWhatIsInTheWay) {
  ASSERT_TRUE(ok(store_->put("x/y", bytes_of("one"))));
  EXPECT_EQ(store_->get("x").error().code, Error::Code::kNotFound);
  const auto below_a_file = store_->put("x/y/z", {});
  EXPECT_NE(below_a_file.error().message.find("Not a directory: something else is in the way"), std::string::npos)
      << below_a_file.error().message;
  const auto over_a_folder = store_->put("x", {});
  EXPECT_NE(over_a_folder.error().message.find("Is a directory"), std::string::npos) << over_a_folder.error().message;
  EXPECT_EQ(store_->list("").value(), std::vector<std::string>{"x/y"}) << "nothing was left behind";
  EXPECT_TRUE(store_->remove_unfinished({})->empty());
}

TEST_F(DirectoryStoreTest, DoesNotMakeItsFolderAgainWhenItVanishes) {
  ASSERT_TRUE(ok(store_->put("x/y", bytes_of("one"))));
  std::filesystem::remove_all(folder_.path() + "/a");
  for (const Error& error :
       {store_->put("x/y", {}).error(), store_->get("x/y").error(), store_->list("").error(), store_->remove("x/y").error()}) {
    EXPECT_EQ(error.code, Error::Code::kUnavailable);
    EXPECT_NE(error.message.find(folder_.path() + "/a/b has vanished: is its volume still mounted?"), std::string::npos)
        << error.message;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/a"));
}

TEST_F(DirectoryStoreTest, DoesNotReadWhatIsTooLargeToBeAnObject) {
  folder_.write_file("a/b/huge", "");
  ASSERT_EQ(::truncate((folder_.path() + "/a/b/huge").c_str(), kObjectBytesMax + 1), 0);
  const auto read = store_->get("huge");
  EXPECT_EQ(read.error().code, Error::Code::kCorrupt);
  EXPECT_NE(read.error().message.find("larger than anything Holdfast writes"), std::string::npos);
}

TEST_F(DirectoryStoreTest, DoesNotWaitForTheWriterOfAPipe) {
  ASSERT_TRUE(ok(store_->put("x/y", bytes_of("one"))));
  ASSERT_EQ(::mkfifo((folder_.path() + "/a/b/x/pipe").c_str(), 0600), 0);
  const auto read = store_->get("x/pipe");
  EXPECT_EQ(read.error().code, Error::Code::kCorrupt);
  EXPECT_NE(read.error().message.find("x/pipe is no regular file"), std::string::npos) << read.error().message;
}

TEST_F(DirectoryStoreTest, OpensOnlyFolders) {
  folder_.write_file("file", "");
  for (const std::string& path : {folder_.path() + "/file", folder_.path() + "/file/below"}) {
    const auto opened = open_directory_store(path);
    ASSERT_FALSE(opened);
    EXPECT_NE(opened.error().message.find(folder_.path() + "/file"), std::string::npos) << opened.error().message;
  }
  EXPECT_EQ(open_directory_store("").error().code, Error::Code::kRefused);
}

TEST_F(DirectoryStoreTest, IsNotMadeWhenItIsOnlyLookedFor) {
  const auto opened = open_directory_store(folder_.path() + "/not/there", MissingFolder::kFail);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Error::Code::kNotFound);
  EXPECT_EQ(opened.error().message, "there is no folder " + folder_.path() + "/not/there");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/not"));
  folder_.write_file("file", "");
  for (const char* name : {"/file", "/file/below"})
    EXPECT_EQ(open_directory_store(folder_.path() + name, MissingFolder::kFail).error().code, Error::Code::kNotFound);

  ASSERT_TRUE(ok(store_->put("x", bytes_of("one"))));
  const auto there = open_directory_store(folder_.path() + "/a/b", MissingFolder::kFail);
  ASSERT_TRUE(ok(there));
  EXPECT_EQ((*there)->get("x").value(), bytes_of("one"));
}

TEST(DirectoryStoreFaults, AreNamedWithPathCauseNeedAndRemedy) {
  const std::pair<int, const char*> cases[] = {{ENOSPC, "(3 bytes needed, 4096 free): write /ckpt/x/.tmp-"},
                                               {ENOSPC, "No space left on device: free space there, keep fewer"},
                                               {EROFS, "Read-only file system: the file system is mounted read-only"},
                                               {EACCES, "Permission denied: give the user"},
                                               {EIO, "Input/output error: look at the system log"},
                                               {EDQUOT, "Disk quota exceeded: free space"},
                                               {EMFILE, "ulimit -n"}};
  for (const auto& [error, expected] : cases) {
    auto files = std::make_shared<FaultyFileSystem>(Disk{}, Fault{Fault::Kind::kOnce, 4, error});
    auto store = open_directory_store("/ckpt", MissingFolder::kMake, files);
    ASSERT_TRUE(ok(store));
    const auto put = (*store)->put("x/y", bytes_of("one"));
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, error == ENOSPC || error == EDQUOT ? Error::Code::kNoSpace : Error::Code::kUnavailable);
    EXPECT_TRUE(put.error().message.starts_with("cannot write /ckpt/x/y (3 bytes needed")) << put.error().message;
    EXPECT_NE(put.error().message.find(expected), std::string::npos) << put.error().message;
  }
}

// An object that the disk cannot read is as lost as an altered object: a reader falls back to another checkpoint and does not
// wait.
TEST(DirectoryStoreFaults, AFileThatTheDiskCannotReadIsCorrupt) {
  const auto files = std::make_shared<FaultyFileSystem>();
  const auto store = std::move(*open_directory_store("/ckpt", MissingFolder::kMake, files));
  const State state(1);
  const auto written = write_checkpoint(*store, manifest_at(10), state.tensors(), {.shard_bytes = 4000});
  ASSERT_TRUE(ok(written));
  for (const std::string& key : {written->shards[1].key, manifest_key(10)}) {
    for (const int error : {EIO, EBADMSG, EUCLEAN}) {
      files->make_unreadable("/ckpt/" + key, error);
      State found = state.blank();
      const auto read = read_checkpoint(*store, 10, found.writable());
      ASSERT_FALSE(read);
      EXPECT_EQ(read.error().code, Error::Code::kCorrupt);
      EXPECT_NE(read.error().message.find(key), std::string::npos) << read.error().message;
      EXPECT_NE(read.error().message.find(std::generic_category().message(error)), std::string::npos) << read.error().message;
    }
    for (const int error : {EACCES, EMFILE, ESTALE, ETIMEDOUT}) {  // these errors may pass by themselves
      files->make_unreadable("/ckpt/" + key, error);
      EXPECT_EQ(verify_checkpoint(*store, 10).error().code, Error::Code::kUnavailable);
    }
    files->heal();
  }
  EXPECT_TRUE(holds(*store, 10, state));
  files->make_unreadable("/ckpt", EIO);
  EXPECT_EQ(open_directory_store("/ckpt", MissingFolder::kFail, files).error().code, Error::Code::kCorrupt);
  EXPECT_EQ(open_directory_store("/ckpt", MissingFolder::kMake, files).error().code, Error::Code::kUnavailable);
}

// A limit on the size of files of this process and its children, while the object lives. A longer write fails as on a full
// volume, also for root.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, SIG_DFL);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

TEST_F(DirectoryStoreTest, AWriteThatTheSystemCutsShortLeavesTheOldCheckpointAndNothingElse) {
  const WriteOptions options{.shard_bytes = 4000};
  ASSERT_TRUE(ok(write_checkpoint(*store_, manifest_at(10), State(1).tensors(), options)));
  {
    const FileSizeLimit limit(2000);
    const auto written = write_checkpoint(*store_, manifest_at(20), State(2).tensors(), options);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, Error::Code::kUnavailable);
    EXPECT_NE(written.error().message.find("File too large"), std::string::npos) << written.error().message;
  }
  EXPECT_TRUE(holds(*store_, 10, State(1)));
  EXPECT_FALSE(is_listed(*store_, 20));
  EXPECT_TRUE(store_->remove_unfinished({})->empty());
  ASSERT_TRUE(ok(write_checkpoint(*store_, manifest_at(20), State(2).tensors(), options)));
  EXPECT_TRUE(holds(*store_, 20, State(2)));
}

TEST_F(DirectoryStoreTest, AWriteInTheBackgroundThatTheSystemCutsShortIsSaid) {
  const auto background = std::move(
      *open_directory_store(folder_.path() + "/a/b", MissingFolder::kFail, posix_file_system(Writing::kInBackground)));
  const FileSizeLimit limit(2000);
  const auto written = background->put("x", Bytes(4000));
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("File too large"), std::string::npos) << written.error().message;
}

TEST_F(DirectoryStoreTest, AFullVolumeIsSaidAndTheOldCheckpointIsKept) {
  const std::string volume = folder_.path() + "/volume";
  ASSERT_EQ(::mkdir(volume.c_str(), 0777), 0);
  if (::mount("tmpfs", volume.c_str(), "tmpfs", 0, "size=256k") != 0) {
    GTEST_SKIP() << "a volume of 256 kB cannot be mounted here (" << std::generic_category().message(errno)
                 << "): run as root with the right to mount; the test with a file size limit runs everywhere";
  }
  {
    const auto store = std::move(*open_directory_store(volume + "/j1"));
    ASSERT_TRUE(ok(write_checkpoint(*store, manifest_at(10), State(1).tensors())));
    const State large(2, 400, 100);
    const auto written = write_checkpoint(*store, manifest_at(20), large.tensors(), {.shard_bytes = 50000});
    EXPECT_FALSE(written);
    if (!written) {
      EXPECT_NE(written.error().message.find("No space left on device: free space there"), std::string::npos)
          << written.error().message;
      EXPECT_NE(written.error().message.find(" free)"), std::string::npos) << written.error().message;
    }
    EXPECT_TRUE(holds(*store, 10, State(1)));
    EXPECT_FALSE(is_listed(*store, 20));
    EXPECT_TRUE(ok(remove_orphans(*store, {})));
    EXPECT_TRUE(ok(write_checkpoint(*store, manifest_at(20), State(3).tensors()))) << "there is room again";
  }
  EXPECT_EQ(::umount2(volume.c_str(), MNT_DETACH), 0);
}

// Two threads put one key, each through its own store, as two processes would. A third thread removes it, so that its folder
// comes and goes, and a fourth reads: it finds the object whole or not at all.
TEST_F(DirectoryStoreTest, PutsAndRemovesOfOneKeyAtOnceLeaveItWholeOrAbsent) {
  const std::string root = folder_.path() + "/a/b";
  const Bytes values[] = {Bytes(5000, std::byte{1}), Bytes(7000, std::byte{2})};
  std::atomic<int> writers = 2;
  std::vector<std::thread> threads;
  for (const Bytes& value : values) {
    threads.emplace_back([&] {
      const auto store = std::move(*open_directory_store(root));
      for (int i = 0; i < 150; ++i) EXPECT_TRUE(ok(store->put("step-1/deep/object", value)));
      --writers;
    });
  }
  threads.emplace_back([&] {
    while (writers > 0) EXPECT_TRUE(ok(store_->remove("step-1/deep/object")));
  });
  threads.emplace_back([&] {
    const auto store = std::move(*open_directory_store(root));
    while (writers > 0) {
      const auto found = store->get("step-1/deep/object");
      if (found) {
        EXPECT_TRUE(*found == values[0] || *found == values[1]);
      } else {
        EXPECT_EQ(found.error().code, Error::Code::kNotFound);
      }
      EXPECT_TRUE(ok(store->list("step-1")));
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(store_->remove_unfinished({})->empty());
}

// Two ranks that both believe to be rank 0 write the same step again and again, with different bytes.
TEST_F(DirectoryStoreTest, TwoWritersOfOneStepLeaveTheCheckpointOfOneOfThemWhole) {
  const std::string root = folder_.path() + "/a/b";
  const State states[] = {State(1), State(2)};
  std::vector<std::thread> threads;
  for (const State& state : states) {
    threads.emplace_back([&] {
      const auto store = std::move(*open_directory_store(root));
      for (int i = 0; i < 15; ++i)
        EXPECT_TRUE(ok(write_checkpoint(*store, manifest_at(10), state.tensors(), {.shard_bytes = 3000, .threads = 2})));
    });
  }
  for (int i = 0; i < 50; ++i) {
    if (is_listed(*store_, 10)) {
      EXPECT_TRUE(ok(verify_checkpoint(*store_, 10)));
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(holds(*store_, 10, states[0]) || holds(*store_, 10, states[1]));
  EXPECT_TRUE(ok(remove_orphans(*store_, {})));
  EXPECT_TRUE(holds(*store_, 10, states[0]) || holds(*store_, 10, states[1]));
}

}  // namespace
}  // namespace holdfast::storage::testing
