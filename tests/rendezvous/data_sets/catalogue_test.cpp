// Data sets by name and by digest.
#include "rendezvous/data_sets/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/data_sets/manifests.h"

namespace holdfast::rendezvous {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class CatalogueTest : public testing::Test {
 protected:
  void has_chunks_of(const DataManifest& manifest) {
    for (const DataSetFile& file : manifest.files) catalogue_.chunks().found(file.chunks.front(), file.bytes, 0);
  }
  std::string keeps(const std::string& name, const DataManifest& manifest) {
    has_chunks_of(manifest);
    const KeptDataSet set = catalogue_.begin_keeping(set_of(manifest));
    catalogue_.keep_ended(set.digest, {name, set.digest, 1}, 1);
    return set.digest;
  }
  Catalogue catalogue_;
};

TEST_F(CatalogueTest, ADataSetIsFoundWhenItIsDurableAndNotBefore) {
  const DataManifest manifest = manifest_of({"one"});
  has_chunks_of(manifest);
  catalogue_.begin_keeping(set_of(manifest));
  EXPECT_EQ(catalogue_.find(manifest.digest()), nullptr);
  catalogue_.keep_ended(manifest.digest(), {"wiki", manifest.digest(), 1}, 1);
  ASSERT_NE(catalogue_.find("wiki"), nullptr);
  EXPECT_EQ(*catalogue_.find("wiki")->manifest, manifest);
}

TEST_F(CatalogueTest, ADataSetThatCouldNotBeKeptLeavesItsChunksForTheNextPush) {
  const DataManifest manifest = manifest_of({"one"});
  has_chunks_of(manifest);
  catalogue_.begin_keeping(set_of(manifest));
  EXPECT_EQ(catalogue_.chunks().unneeded_bytes(), 0);
  catalogue_.keep_ended(manifest.digest(), {}, 1);
  EXPECT_EQ(catalogue_.find(manifest.digest()), nullptr);
  EXPECT_EQ(catalogue_.chunks().unneeded_bytes(), 3);
  EXPECT_THAT(catalogue_.missing_chunks(manifest), IsEmpty());
}

TEST_F(CatalogueTest, TheKeyOfADataSetThatIsThereStays) {
  const DataManifest manifest = manifest_of({"one"});
  keeps("wiki", manifest);
  EXPECT_EQ(catalogue_.begin_keeping(set_of(manifest, "another")).key, "k");
}

TEST_F(CatalogueTest, ANameThatMeansAnotherDataSetLeavesTheOneBeforeWithoutAName) {
  const std::string before = keeps("wiki", manifest_of({"one"}));
  const std::string after = keeps("wiki", manifest_of({"two"}));
  EXPECT_EQ(catalogue_.find("wiki")->digest, after);
  ASSERT_THAT(catalogue_.unnamed(), SizeIs(1));
  EXPECT_EQ(catalogue_.unnamed().front()->digest, before);
  EXPECT_THAT(catalogue_.drop(before, 5), ElementsAre(chunk_named("one")));
  EXPECT_EQ(catalogue_.find(before), nullptr);
}

TEST_F(CatalogueTest, ADataSetThatIsBeingKeptUnderAnotherNameIsNotUnnamed) {
  const DataManifest manifest = manifest_of({"one"});
  keeps("wiki", manifest);
  catalogue_.begin_keeping(set_of(manifest));
  catalogue_.forget_name("wiki");
  EXPECT_THAT(catalogue_.unnamed(), IsEmpty());
}

TEST_F(CatalogueTest, AManifestsMissingChunksAreNamedOnce) {
  EXPECT_THAT(catalogue_.missing_chunks(manifest_of({"one", "one"})), ElementsAre(chunk_named("one")));
}

TEST_F(CatalogueTest, NamesOfDataSetsThatAreNotThereMeanNothing) {
  FoundDataSets found;
  found.sets = {set_of(manifest_of({"one"}))};
  found.names = {{"wiki", found.sets[0].digest, 1}, {"code", std::string(64, 'a'), 1}};
  catalogue_.load(found);
  EXPECT_THAT(catalogue_.name_list(), ElementsAre("wiki"));
  EXPECT_THAT(catalogue_.missing_chunks(manifest_of({"one"})), SizeIs(1)) << "its chunk was not on the disk";
}

}  // namespace
}  // namespace holdfast::rendezvous
