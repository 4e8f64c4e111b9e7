// MediaWiki's markup taken off an article, well enough to train on: what a reader of the page sees as running text stays.
// Gone are templates, tables, references, comments, files, categories and HTML; links and headings leave their words.
#pragma once

#include <string>
#include <string_view>

namespace holdfast::model {

// Time is linear in `markup`, however it is nested: links in one another deeper than 16 are text. Brackets that are never
// closed are text.
std::string plain_text_of_wikitext(std::string_view markup);

}  // namespace holdfast::model
