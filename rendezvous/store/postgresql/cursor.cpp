#include "rendezvous/store/postgresql/cursor.h"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "rendezvous/store/job_store.h"
#include "rendezvous/store/postgresql/sql_text.h"

namespace holdfast::rendezvous {
namespace {

// PostgreSQL's numbers of types, which never change: int8, float8, text, bytea.
constexpr unsigned kInteger = 20, kReal = 701, kText = 25, kBytes = 17;
constexpr int kAsText = 0, kAsBytes = 1;

int digit(char c) {
  return c <= '9' ? c - '0' : c - 'a' + 10;
}

}  // namespace

PostgresqlCursor::PostgresqlCursor(PostgresqlDatabase& database, std::string_view sql, std::string statement)
    : database_(database), sql_(with_numbered_parameters(sql)), statement_(std::move(statement)) {}

PostgresqlCursor::~PostgresqlCursor() {
  PQclear(rows_);
}

void PostgresqlCursor::set(int parameter, std::optional<std::string> value, unsigned type, int format) {
  const auto place = static_cast<size_t>(parameter);
  if (values_.size() <= place) {
    values_.resize(place + 1);
    types_.resize(place + 1, kText);
    formats_.resize(place + 1, kAsText);
  }
  values_[place] = std::move(value);
  types_[place] = type;
  formats_[place] = format;
}

void PostgresqlCursor::bind(int parameter, int64_t value) {
  set(parameter, std::to_string(value), kInteger, kAsText);
}

void PostgresqlCursor::bind(int parameter, const std::optional<double>& value) {
  if (!value) return set(parameter, std::nullopt, kReal, kAsText);
  const bool infinite = std::isinf(*value);
  set(parameter,
      infinite             ? (*value < 0 ? "-Infinity" : "Infinity")
      : std::isnan(*value) ? "NaN"
                           : fmt::format("{}", *value),
      kReal, kAsText);
}

void PostgresqlCursor::bind(int parameter, std::string_view value) {
  set(parameter, storable_text(value), kText, kAsText);
}

void PostgresqlCursor::bind(int parameter, const Blob& value) {
  set(parameter, value.bytes, kBytes, kAsBytes);
}

void PostgresqlCursor::send(bool keeps_rows) {
  const std::string doing = fmt::format("running \"{}\"", sql_);
  if (!prepared) database_.send_prepare(*this, statement_, sql_, types_, doing);
  std::vector<const char*> values;
  std::vector<int> lengths;
  for (const auto& value : values_) {
    values.push_back(value ? value->c_str() : nullptr);
    lengths.push_back(value ? static_cast<int>(value->size()) : 0);
  }
  database_.send_use(*this, statement_, {values, lengths, formats_}, keeps_rows, doing);
}

void PostgresqlCursor::run() {
  send(false);
  // Outside of a transaction nobody asks later. And the next use must know whether the server could prepare this one.
  if (!prepared || !database_.in_transaction()) database_.settle();
}

bool PostgresqlCursor::step() {
  if (rows_ == nullptr) {
    send(true);
    database_.settle();
    row_ = -1;
  }
  return rows_ != nullptr && ++row_ < PQntuples(rows_);
}

void PostgresqlCursor::take(pg_result* rows) {
  PQclear(rows_);
  rows_ = rows;
}

void PostgresqlCursor::reset() {
  PQclear(std::exchange(rows_, nullptr));
  values_.clear();
  types_.clear();
  formats_.clear();
}

std::string_view PostgresqlCursor::value(int column) const {
  return {PQgetvalue(rows_, row_, column), static_cast<size_t>(PQgetlength(rows_, row_, column))};
}

int64_t PostgresqlCursor::integer(int column) const {
  const std::string_view text = value(column);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!text.empty() && (error != std::errc() || end != text.data() + text.size()))
    throw StoreError(fmt::format("database {}: \"{}\" gave \"{}\" instead of a whole number", database_.name(), sql_, text));
  return number;
}

std::optional<double> PostgresqlCursor::maybe_real(int column) const {
  if (PQgetisnull(rows_, row_, column) == 1) return std::nullopt;
  const std::string_view text = value(column);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    throw StoreError(fmt::format("database {}: \"{}\" gave \"{}\" instead of a number", database_.name(), sql_, text));
  return number;
}

// Bytes come as \x and two digits each.
std::string PostgresqlCursor::text(int column) const {
  const std::string_view text = value(column);
  if (PQftype(rows_, column) != kBytes) return std::string(text);
  std::string bytes;
  for (size_t at = 2; at + 1 < text.size(); at += 2) bytes += static_cast<char>(16 * digit(text[at]) + digit(text[at + 1]));
  return bytes;
}

}  // namespace holdfast::rendezvous
