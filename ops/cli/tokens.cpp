// Access by tokens: `whoami`, and `tokens create|ls|revoke` for admins.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ops/cli/chaos/plan.h"
#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/table.h"
#include "ops/cli/terminal/text_width.h"

namespace holdfast::ops {
namespace {

struct CreateArguments {
  std::string name, role, expires_in;
};

void say_who(const Options& options) {
  const Json answer = Api(options).get("/v1/whoami");
  if (options.json) return print_json(answer);
  const Json& token = answer.at("token");
  fmt::print("{} (token {}), which may {}, at {}\n", printable(text_at(token, "name")), text_at(token, "id"),
             text_at(token, "role") == "admin"    ? "do everything"
             : text_at(token, "role") == "submit" ? "look, submit and steer jobs"
             : text_at(token, "role") == "worker" ? "be a worker"
                                                  : "look",
             server_of(options));
}

void create(const Options& options, const CreateArguments& arguments) {
  Json body = {{"name", arguments.name}, {"role", arguments.role}};
  if (!arguments.expires_in.empty()) {
    const auto seconds = parse_duration(arguments.expires_in);
    if (!seconds || *seconds < 1)
      throw Failure{kBadInput, fmt::format("--expires_in {}: expected a time such as 12h or 30d", arguments.expires_in)};
    body["expires_in_s"] = static_cast<int64_t>(*seconds);
  }
  const Json made = Api(options).post("/v1/tokens", body);
  if (options.json) return print_json(made);
  fmt::print("{}\n", made.at("token").get<std::string>());
  fmt::print(stderr, "This is the only time that the token is shown. It is {}; to end it: holdfast tokens revoke {}\n",
             text_at(made, "id"), text_at(made, "id"));
}

void list_tokens(const Options& options) {
  const Json tokens = Api(options).list("/v1/tokens", "tokens");
  if (options.json) return print_json({{"tokens", tokens}, {"next_page_token", nullptr}});
  Table table({"TOKEN", Column("NAME").shrinks(1, 8), "ROLE", Column("CREATED").left_out(1), Column("EXPIRES").left_out(3),
               Column("LAST USED").left_out(2)});
  for (const Json& token : tokens) {
    table.add({text_at(token, "id"), text_at(token, "name"), text_at(token, "role"), time_text(text_at(token, "created_at")),
               has(token, "expires_at") ? time_text(text_at(token, "expires_at")) : "never",
               has(token, "last_used_at") ? time_text(text_at(token, "last_used_at")) : "never"});
  }
  table.print(options.wide);
}

// The id of the token with this id or, when there is one such, this name.
std::string token_id(Api& api, const std::string& wanted) {
  std::vector<std::string> of_that_name;
  for (const Json& token : api.list("/v1/tokens", "tokens")) {
    if (text_at(token, "id") == wanted) return wanted;
    if (text_at(token, "name") == wanted) of_that_name.push_back(text_at(token, "id"));
  }
  if (of_that_name.empty())
    throw Failure{kBadInput, fmt::format("no token has the id or name {}: `holdfast tokens ls` lists them", wanted)};
  if (of_that_name.size() > 1) {
    throw Failure{kBadInput, fmt::format("{} tokens are named {}: give the id, one of {}", of_that_name.size(), wanted,
                                         fmt::join(of_that_name, ", "))};
  }
  return of_that_name.front();
}

void revoke(const Options& options, const std::string& wanted) {
  Api api(options);
  const std::string id = token_id(api, wanted);
  const Json answer = api.remove("/v1/tokens/" + percent_encoded(id));
  if (options.json) return print_json(answer.empty() ? Json{{"id", id}, {"revoked", true}} : answer);
  fmt::print("{} is revoked: nobody gets in with it any more\n", id);
}

}  // namespace

void add_token_commands(CLI::App& app, Options& options) {
  CLI::App* whoami =
      add_command(app, options, "whoami", "Say which token this program uses, and what it may do", "holdfast whoami");
  whoami->callback([&options] { say_who(options); });

  CLI::App* tokens = add_group(app, "tokens", "Make, list and revoke the tokens that people and programs come with",
                               "holdfast tokens create ci --role submit --expires_in 30d");
  const auto arguments = std::make_shared<CreateArguments>();
  CLI::App* make = add_command(*tokens, options, "create", "Make a token; prints it, this once",
                               "holdfast tokens create ci --role submit --expires_in 30d");
  make->add_option("name", arguments->name, "Whom it is for, as lists show it")->required()->type_name("TEXT");
  make->add_option("--role", arguments->role,
                   "read: look; submit: submit and steer jobs, too; admin: everything; worker: what holdfast-worker needs")
      ->required()
      ->check(CLI::IsMember({"admin", "submit", "read", "worker"}))
      ->type_name("ROLE");
  make->add_option("--expires_in", arguments->expires_in, "Ends by itself after this, such as 12h or 30d [never]")
      ->type_name("DURATION");
  make->callback([&options, arguments] { create(options, *arguments); });

  CLI::App* list = add_command(*tokens, options, "ls", "List the tokens, without what is secret in them", "holdfast tokens ls");
  add_wide_flag(*list, options);
  list->callback([&options] { list_tokens(options); });

  const auto id = std::make_shared<std::string>();
  CLI::App* end = add_command(*tokens, options, "revoke", "End a token at once", "holdfast tokens revoke ci");
  // Not "token": CLI11 2.4 refuses a positional argument with the name of a flag.
  end->add_option("id", *id, "Token id or name")->required()->type_name("TEXT");
  end->callback([&options, id] { revoke(options, *id); });
}

}  // namespace holdfast::ops
