#include "rendezvous/store/sql/copy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/store/job_store.h"
#include "rendezvous/store/sql/tables.h"

namespace holdfast::rendezvous {
namespace {

using Value = std::variant<int64_t, std::optional<double>, std::string, Blob>;
using Row = std::vector<Value>;

constexpr int64_t kRowsAtOnce = 2000;

std::vector<std::string> names_of(const SqlTable& table) {
  std::vector<std::string> names;
  for (const SqlColumn& column : table.columns) names.push_back(column.name);
  return names;
}

size_t place_of(const SqlTable& table, const std::string& column) {
  size_t place = 0;
  while (table.columns[place].name != column) ++place;
  return place;
}

Value value_of(const SqlStatement& row, int place, SqlColumn::Kind kind) {
  switch (kind) {
    case SqlColumn::Kind::kInteger:
      return row.integer(place);
    case SqlColumn::Kind::kReal:
      return row.maybe_real(place);
    case SqlColumn::Kind::kText:
      return row.text(place);
    case SqlColumn::Kind::kBytes:
      break;
  }
  return Blob{row.text(place)};
}

// The rows of a table in the order of its key, some at a time.
class RowsInOrder {
 public:
  RowsInOrder(SqlDatabase& database, const SqlTable& table) : db_(database), table_(table) {
    const std::string columns = fmt::format("{}", fmt::join(names_of(table), ", "));
    const std::string key = fmt::format("{}", fmt::join(table.key, ", "));
    const std::vector<std::string> values(table.key.size(), "?");
    first_ = fmt::format("SELECT {} FROM {} ORDER BY {} LIMIT ?", columns, table.name, key);
    next_ = fmt::format("SELECT {} FROM {} WHERE ({}) > ({}) ORDER BY {} LIMIT ?", columns, table.name, key,
                        fmt::join(values, ", "), key);
  }

  // Empty: there are no more.
  std::vector<Row> next() {
    std::vector<Row> rows;
    auto q = db_.prepare(after_.empty() ? first_ : next_);
    for (const Value& value : after_) std::visit([&](const auto& bound) { q.with(bound); }, value);
    for (q.with(kRowsAtOnce); q.step();) {
      Row& row = rows.emplace_back();
      for (size_t i = 0; i < table_.columns.size(); ++i)
        row.push_back(value_of(q, static_cast<int>(i), table_.columns[i].kind));
    }
    if (!rows.empty()) {
      after_.clear();
      for (const std::string& column : table_.key) after_.push_back(rows.back()[place_of(table_, column)]);
    }
    return rows;
  }

 private:
  SqlDatabase& db_;
  const SqlTable& table_;
  std::string first_, next_;
  Row after_;  // the key of the last row that was read
};

int64_t put_rows(SqlDatabase& from, SqlDatabase& to, const SqlTable& table) {
  const std::vector<std::string> values(table.columns.size(), "?");
  const std::string insert =
      fmt::format("INSERT INTO {} ({}) VALUES ({})", table.name, fmt::join(names_of(table), ", "), fmt::join(values, ","));
  RowsInOrder rows(from, table);
  int64_t count = 0;
  for (auto some = rows.next(); !some.empty(); some = rows.next()) {
    for (const Row& row : some) {
      auto q = to.prepare(insert);
      for (const Value& value : row) std::visit([&](const auto& bound) { q.with(bound); }, value);
      q.run();
    }
    count += static_cast<int64_t>(some.size());
  }
  if (table.has_ids) to.skip_ids_to(table.name, from.last_id(table.name));
  return count;
}

void refuse_rows(SqlDatabase& to) {
  for (const SqlTable& table : sql_tables()) {
    if (!RowsInOrder(to, table).next().empty())
      throw StoreError(fmt::format("{} has rows in the table {} already: name a database without any", to.name(), table.name));
  }
}

std::string text_of(const Value& value) {
  struct Visitor {
    std::string operator()(int64_t number) const { return std::to_string(number); }
    std::string operator()(const std::optional<double>& number) const {
      return number ? fmt::format("{}", *number) : "nothing";
    }
    std::string operator()(const std::string& text) const { return fmt::format("\"{}\"", text.substr(0, 60)); }
    std::string operator()(const Blob& blob) const { return fmt::format("{} bytes", blob.bytes.size()); }
  };
  return std::visit(Visitor{}, value);
}

// Whether `b` is what `to` reads where `a` was written.
bool is_same(const Value& a, const Value& b, const SqlDatabase& to) {
  if (const auto* bytes = std::get_if<Blob>(&a)) return bytes->bytes == std::get<Blob>(b).bytes;
  if (const auto* text = std::get_if<std::string>(&a)) return to.as_kept(*text) == std::get<std::string>(b);
  if (const auto* number = std::get_if<int64_t>(&a)) return *number == std::get<int64_t>(b);
  return std::get<std::optional<double>>(a) == std::get<std::optional<double>>(b);
}

void compare(SqlDatabase& from, SqlDatabase& to, const SqlTable& table) {
  RowsInOrder ours(from, table), theirs(to, table);
  while (true) {
    const auto here = ours.next(), there = theirs.next();
    if (here.size() != there.size())
      throw StoreError(fmt::format("the table {} of {} has other rows than that of {}", table.name, to.name(), from.name()));
    if (here.empty()) return;
    for (size_t row = 0; row < here.size(); ++row) {
      for (size_t column = 0; column < table.columns.size(); ++column) {
        if (is_same(here[row][column], there[row][column], to)) continue;
        throw StoreError(fmt::format("{} in a row of the table {} is {} in {} and {} in {}", table.columns[column].name,
                                     table.name, text_of(here[row][column]), from.name(), text_of(there[row][column]),
                                     to.name()));
      }
    }
  }
}

}  // namespace

void copy_rows(SqlDatabase& from, SqlDatabase& to, const std::function<void(const std::string&, int64_t)>& on_table) {
  refuse_rows(to);
  to.begin();
  for (const SqlTable& table : sql_tables()) on_table(table.name, put_rows(from, to, table));
  for (const SqlTable& table : sql_tables()) compare(from, to, table);
  to.commit();
}

}  // namespace holdfast::rendezvous
