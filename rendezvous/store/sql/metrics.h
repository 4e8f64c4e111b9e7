// The tables of what each step measured: the newest steps as rows, a job's whole life as curves, and every step's digest.
//
// A curve has levels: a point of level n stands for the whole steps of one stretch of 4^n numbers, and is made of the points
// of the level below (of level 1: of rows) when its stretch is over, for kFoldedAtOnce steps together. Of each level the
// newest kPointsKept are kept, of rows kStepRowsKept, so that a job of any length has at most some 100,000 rows and points, and
// a curve of N points is read from at most 2 N of them. Digests, which `holdfast audit` needs for all of a job's life, are
// packed when their rows go: 8 bytes a step, and some 40 more for each 256 (its row's key).
//
// Steps that are voided go from all tables. A point that the cut goes through is taken apart and made again from what it was
// made of; where that is not kept any more (the job went back over more than kStepRowsKept steps), it goes on to stand for the
// steps before the cut, with the values of all.
// Thread and transactions: the caller's.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "rendezvous/store/job_store.h"
#include "rendezvous/store/record_limits.h"
#include "rendezvous/store/sql/database.h"

namespace holdfast::rendezvous {

inline constexpr int64_t kPointsKept = 12'000, kFoldedAtOnce = 256;

// Each function as in JobStore.
class SqlMetrics {
 public:
  explicit SqlMetrics(SqlDatabase& database) : db_(database) {}  // outlives it

  void add(const std::string& job, const std::vector<StepRow>& rows);
  void void_steps(const std::string& job, int64_t first);
  std::vector<StepRow> rows(const std::string& job, int64_t after, int64_t limit);
  int64_t folded_to(const std::string& job);
  int64_t newest_id(const std::string& job);
  std::vector<CurvePoint> curve(const std::string& job, int64_t at_most);
  std::vector<StepDigest> digests(const std::string& job, const StepRange& range);

  // Folds what is there as rows and should not be: a database of an older version has every step as one. A transaction for
  // each part, outside the caller's; one that was broken off goes on at the next call. To look at every job that ever was reads
  // some pages of the disk for each, which is slow with ten thousand of them: once after an upgrade is enough.
  void fold_what_is_behind(bool of_ended_jobs);

 private:
  int64_t newest_row(const std::string& job);
  int64_t world_size_of(const std::string& job, int64_t generation);
  void insert(const std::string& job, const StepRow& row);
  std::set<int64_t> rows_there(const std::string& job, int64_t first, int64_t last);
  bool fold(const std::string& job, int64_t newest);
  int64_t level_end(const std::string& job, int level);
  int64_t next_in_level(const std::string& job, int level, int64_t after);
  int64_t fold_level(const std::string& job, int level, int64_t newest);
  bool drop_old(const std::string& job, int64_t newest);
  void fold_jobs(const char* query);
  bool is_behind(const std::string& job);
  void unfold(const std::string& job, int64_t first);
  bool has_parts(const std::string& job, int level, int64_t first_step);
  std::vector<CurvePoint> points(const std::string& job, int level, int64_t after, int64_t to);
  void save_point(const std::string& job, int level, const CurvePoint& point);
  void pack_digests(const std::string& job, int64_t to);

  SqlDatabase& db_;
};

}  // namespace holdfast::rendezvous
