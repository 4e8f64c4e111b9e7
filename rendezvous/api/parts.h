// The parts of one service, each with its own state, in the order in which they are made: a part uses those above it. They end
// in the reverse order, so that threads end before what they use.
//
// Thread: the owner's, but for `commands` and `access`, which any thread may use.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "rendezvous/api/access.h"
#include "rendezvous/api/data_sets/chunks.h"
#include "rendezvous/api/data_sets/holders.h"
#include "rendezvous/api/data_sets/keeper.h"
#include "rendezvous/api/data_sets/sets.h"
#include "rendezvous/api/documents/probes.h"
#include "rendezvous/api/exports/exports.h"
#include "rendezvous/api/feeds/followers.h"
#include "rendezvous/api/feeds/lists.h"
#include "rendezvous/api/jobs.h"
#include "rendezvous/api/objects.h"
#include "rendezvous/api/plans.h"
#include "rendezvous/api/profiles/profiles.h"
#include "rendezvous/api/prometheus_metrics.h"
#include "rendezvous/api/scaling/scaler.h"
#include "rendezvous/api/service.h"
#include "rendezvous/api/serving/serving.h"
#include "rendezvous/api/submissions.h"
#include "rendezvous/api/tokens.h"
#include "rendezvous/api/turn/turn.h"
#include "rendezvous/api/webhook_sender.h"
#include "rendezvous/api/webhooks.h"
#include "rendezvous/api/workers.h"

namespace holdfast::rendezvous {

struct Parts {
  Parts(const ServiceOptions& options, const Clock& clock, JobStore& store, std::function<std::string()> new_secret);
  ~Parts();
  Parts(const Parts&) = delete;

  // Answers everybody who still waits, and takes nothing more.
  void close();
  // Ends the threads that read and write checkpoints and data sets, after what they have taken.
  void finish();

  Coordinator state;
  Replies replies;
  const std::shared_ptr<CommandQueue> commands;
  Turn turn;

  Followers followers;
  TokenDesk tokens;
  AccessControl access;
  Probes probes;
  Scaler scaler;
  ServingApi serving;
  PrometheusMetrics prometheus;
  JobsApi jobs;
  PlansApi plans;
  ListsApi lists;
  WorkersApi workers;
  ProfilesApi profiles;
  DataKeeper data_keeper;
  DataChunksApi data_chunks;
  DataSetsApi data_sets;
  DataHoldersApi data_holders;
  Submissions submissions;
  ObjectsApi objects;
  ExportsApi exports;
  WebhookSender webhook_sender;
  WebhooksApi webhooks;
};

}  // namespace holdfast::rendezvous
