// The data sets that a job names: looked up once, when it is submitted.
//
// Promises: after pin_data_sets each source in a data set has its digest in the spec's text, so the job trains on what had the
// name then; mixtures are written in one form. Files and mixtures of files are left as they are.
// Refuses, with the field: a name or digest that is not there, a file that the data set lacks, a file with ids that the
// model's vocabulary lacks, or with fewer tokens than one sequence needs.
// Thread: the owner's. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "rendezvous/data_sets/catalogue.h"
#include "rendezvous/protocol/job_spec.h"
#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {

std::vector<FieldError> pin_data_sets(const Catalogue& catalogue, JobSpec& spec);

// Digests of the data sets that the spec's data are in; a source that was never pinned has none.
std::set<std::string> data_sets_of(const JobSpec& spec);

// A sentence about a data set that is not there, with what to do.
std::string no_such_data_set(const Catalogue& catalogue, const std::string& name_or_digest);

}  // namespace holdfast::rendezvous
