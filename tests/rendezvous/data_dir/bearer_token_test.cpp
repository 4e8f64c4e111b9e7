// The files with the service's first tokens.
#include "rendezvous/data_dir/bearer_token.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace holdfast::rendezvous {
namespace {

namespace fs = std::filesystem;

class BearerToken : public testing::Test {
 protected:
  BearerToken() { fs::create_directories(folder_); }
  ~BearerToken() override { fs::remove_all(folder_); }

  const std::string folder_ = testing::TempDir() + "bearer_token." + std::to_string(getpid());
  const std::string path_ = folder_ + "/admin.token";
};

TEST_F(BearerToken, IsMadeOnceForItsOwnerAlone) {
  const auto made = load_or_make_token(path_);
  ASSERT_TRUE(made) << made.error();
  EXPECT_EQ(made->size(), 64U);
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_EQ(load_or_make_token(path_), made) << "it is read from then on";
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "nothing else is left there";
}

TEST_F(BearerToken, ATemporaryFileOfAKilledServiceIsReplaced) {
  std::ofstream(path_ + ".new") << "half";
  const auto made = load_or_make_token(path_);
  ASSERT_TRUE(made) << made.error();
  EXPECT_EQ(made->size(), 64U);
}

TEST_F(BearerToken, AFileWithoutATokenIsRefused) {
  std::ofstream(path_) << "short\n";
  const auto found = load_or_make_token(path_);
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().find("at least 16 characters expected, 5 found"), std::string::npos) << found.error();
}

TEST_F(BearerToken, AFolderThatCannotBeWrittenIsNamed) {
  const auto made = load_or_make_token(folder_ + "/missing/admin.token");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error(), "cannot write the token file " + folder_ +
                              "/missing/admin.token: No such file or directory; choose a --data_dir that can be written");
}

}  // namespace
}  // namespace holdfast::rendezvous
