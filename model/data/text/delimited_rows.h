// The records of a .csv file (RFC 4180) or a .tsv file (the same without quotes): of each row behind the first, which names the
// fields, the one named `field`. Empty ones are passed over.
#pragma once

#include <memory>
#include <string>

#include "model/data/text/records.h"

namespace holdfast::model {

std::unique_ptr<RecordReader> read_delimited_rows(CheckedText& text, const std::string& field, char delimiter);

}  // namespace holdfast::model
