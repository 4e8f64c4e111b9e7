// The records of a dump of Wikipedia (pages-articles.xml, MediaWiki's export format): its articles, each with its title on the
// first line, without markup (wikitext.h). Pages of other kinds (talk, templates, categories) and redirects are passed over.
#pragma once

#include <memory>

#include "model/data/text/records.h"

namespace holdfast::model {

std::unique_ptr<RecordReader> read_wiki_dump(CheckedText& text);

}  // namespace holdfast::model
