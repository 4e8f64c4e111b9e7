// `holdfast webhooks`: URLs that the service tells when a job's state changes.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <iostream>

#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/table.h"

namespace holdfast::ops {
namespace {

const std::vector<std::string> kStates = {"queued", "running", "waiting", "paused", "succeeded", "failed", "cancelled"};

struct WebhookArguments {
  std::string url, secret;
  std::vector<std::string> states;
};

// Its first line.
std::string secret_from_input() {
  std::string secret;
  std::getline(std::cin, secret);
  if (secret.ends_with('\r')) secret.pop_back();
  if (secret.empty()) throw Failure{kBadInput, "--secret -: there is no line on the input that holds one"};
  return secret;
}

void create_webhook(const Options& options, const WebhookArguments& arguments) {
  Json body = {{"url", arguments.url}};
  if (!arguments.states.empty()) body["states"] = arguments.states;
  if (!arguments.secret.empty()) body["secret"] = arguments.secret == "-" ? secret_from_input() : arguments.secret;
  const Json made = Api(options).post("/v1/webhooks", body);
  if (options.json) return print_json(made);
  fmt::print("{}\n", text_at(made, "secret"));
  fmt::print(stderr,
             "{} is told from now on, as webhook {}. Above is the secret that its messages are signed with; it is not shown "
             "again.\n",
             arguments.url, text_at(made, "id"));
}

std::string states_text(const Json& webhook) {
  std::string text;
  for (const Json& state : webhook.value("states", Json::array()))
    text += (text.empty() ? "" : ",") + (state.is_string() ? state.get<std::string>() : state.dump());
  return text.empty() ? "all" : text;
}

// "2026-11-20 16:55:03: 200", or why it did not arrive.
Cell last_delivery_cell(const Json& webhook) {
  if (!has(webhook, "last_delivery")) return {"none yet", Style::kFaint};
  const Json& delivery = webhook["last_delivery"];
  const std::string error = text_at(delivery, "error");
  const bool failing = has(webhook, "failing") && webhook["failing"] == true;
  return {fmt::format("{}{}: {}", failing ? "FAILING, " : "", time_text(text_at(delivery, "time")),
                      error.empty() ? text_at(delivery, "status", "-") : error),
          failing ? Style::kBad : Style::kPlain};
}

void list_webhooks(const Options& options) {
  const Json webhooks = Api(options).list("/v1/webhooks", "webhooks");
  if (options.json) return print_json({{"webhooks", webhooks}, {"next_page_token", nullptr}});
  if (webhooks.empty()) {
    fmt::print("No webhooks. Make one: holdfast webhooks create https://example.org/hook --states succeeded,failed\n");
    return;
  }
  Table table({"WEBHOOK", Column("URL").shrinks(2, 20), Column("STATES").shrinks(3, 8).left_out(1),
               Column("LAST DELIVERY").shrinks(1, 20)});
  for (const Json& webhook : webhooks)
    table.add({text_at(webhook, "id"), text_at(webhook, "url"), states_text(webhook), last_delivery_cell(webhook)});
  table.print(options.wide);
}

void remove(const Options& options, const std::string& id) {
  const Json answer = Api(options).remove("/v1/webhooks/" + percent_encoded(id));
  if (options.json) return print_json(answer.empty() ? Json{{"id", id}, {"removed", true}} : answer);
  fmt::print("{} is removed: its URL is told nothing more\n", id);
}

}  // namespace

void add_webhook_commands(CLI::App& app, Options& options) {
  CLI::App* webhooks = add_group(app, "webhooks", "URLs that are told when a job's state changes",
                                 "holdfast webhooks create https://example.org/hook --states succeeded,failed");
  const auto arguments = std::make_shared<WebhookArguments>();
  CLI::App* make = add_command(*webhooks, options, "create", "Have a URL told; prints the secret that messages are signed with",
                               "holdfast webhooks create https://example.org/hook --states succeeded,failed");
  make->add_option("url", arguments->url, "Where messages are posted to")->required()->type_name("URL");
  make->add_option("--states", arguments->states, "Only changes to these states [all]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(kStates))
      ->type_name("LIST");
  make->add_option("--secret", arguments->secret,
                   "Sign with this [one that the service makes]; - reads it from the input: arguments are seen by all users")
      ->type_name("TEXT");
  make->callback([&options, arguments] { create_webhook(options, *arguments); });

  CLI::App* list = add_command(*webhooks, options, "ls", "List the webhooks, and how the last message of each fared",
                               "holdfast webhooks ls");
  add_wide_flag(*list, options);
  list->callback([&options] { list_webhooks(options); });

  const auto id = std::make_shared<std::string>();
  CLI::App* end = add_command(*webhooks, options, "rm", "Remove a webhook", "holdfast webhooks rm w1");
  end->add_option("webhook", *id, "Webhook id, as `holdfast webhooks ls` shows it")->required()->type_name("TEXT");
  end->callback([&options, id] { remove(options, *id); });
}

}  // namespace holdfast::ops
