#include "ops/cli/help/topics.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ops/cli/jobs/spec_flags.h"
#include "ops/cli/terminal/terminal.h"
#include "ops/cli/terminal/text_width.h"
#include "rendezvous/protocol/foreign_names.h"

namespace holdfast::ops {
namespace {

std::string facts_of(const rendezvous::SpecField& field) {
  std::string facts = field.type + "; " + field.range;
  if (!field.default_value.empty())
    facts += field.default_value == "required" ? "; required" : "; default: " + field.default_value;
  return facts;
}

HelpTopic job_spec_topic() {
  HelpTopic topic{"job_spec", "Job spec", {}};
  topic.sections.push_back(
      {"",
       "What a job is: fields of a JSON object, for POST /v1/jobs and for `holdfast submit --config FILE`, and flags of the "
       "same "
       "names for `holdfast submit`, which win over the file. `holdfast show JOB --spec` prints the spec of a job with every "
       "default filled in. `holdfast submit --dry_run` has the service check one. Only train_data_path must be given.",
       {}});
  for (const auto& field : rendezvous::job_spec_fields()) {
    if (topic.sections.back().heading != field.group) topic.sections.push_back({field.group, "", {}});
    topic.sections.back().entries.push_back({field.name, facts_of(field), field.help});
  }
  return topic;
}

HelpTopic field_topic(const rendezvous::SpecField& field) {
  const std::string value = value_name_of(field);
  const std::string in_a_file = field.type == "integer" || field.type == "number" ? value
                                : field.type == "map"                             ? "{\"KEY\": \"VALUE\"}"
                                                                                  : "\"" + value + "\"";
  return {field.name,
          "Job spec, " + field.group + ": " + field.name,
          {{"",
            "",
            {{field.name, facts_of(field), field.help},
             {"as a flag", "", fmt::format("holdfast submit --{} {}", field.name, value)},
             {"in a file", "", fmt::format("\"{}\": {}", field.name, in_a_file)}}}}};
}

HelpTopic environment_topic() {
  return {
      "environment",
      "Environment",
      {{"", "A flag wins over the environment, and the environment over the default.", {}},
       {"holdfast and holdfast-worker",
        "",
        {{"HOLDFAST_SERVER", "default: http://127.0.0.1:7070", "Where the service is; --server wins."},
         {"HOLDFAST_TOKEN", "",
          "The bearer token; --token wins. Without either, admin.token (holdfast) or worker.token (holdfast-worker) in the "
          "data "
          "directory is read, which is there on the service's own machine."},
         {"HOLDFAST_CACERT", "",
          "PEM file of who signed the service's certificate, where this machine does not trust it anyway; --cacert wins."},
         {"HOLDFAST_DATA_DIR", "default: $XDG_DATA_HOME/holdfast, else ~/.local/share/holdfast",
          "The service's data directory: database, tokens, and the checkpoints and data sets that it keeps."},
         {"XDG_DATA_HOME", "", "See HOLDFAST_DATA_DIR."}}},
       {"checkpoints in S3",
        "",
        {{"AWS_ACCESS_KEY_ID", "", "With AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN for keys that end: who asks."},
         {"AWS_SECRET_ACCESS_KEY", "", "See AWS_ACCESS_KEY_ID."},
         {"AWS_SESSION_TOKEN", "", "See AWS_ACCESS_KEY_ID."},
         {"AWS_PROFILE", "default: default", "The profile of these files that is taken where there are no keys above."},
         {"AWS_SHARED_CREDENTIALS_FILE", "default: ~/.aws/credentials", "See AWS_PROFILE."},
         {"AWS_CONFIG_FILE", "default: ~/.aws/config", "See AWS_PROFILE; its region counts, too."},
         {"AWS_REGION", "default: AWS_DEFAULT_REGION, else the profile's, else us-east-1",
          "The region of a place that names none."},
         {"AWS_DEFAULT_REGION", "", "See AWS_REGION."},
         {"AWS_ENDPOINT_URL_S3", "default: AWS_ENDPOINT_URL, else Amazon's", "The server of a place that names none."},
         {"AWS_ENDPOINT_URL", "", "See AWS_ENDPOINT_URL_S3."},
         {"AWS_EC2_METADATA_DISABLED", "",
          "true: this machine's role is not asked for, where there are neither keys nor a profile."},
         {"AWS_EC2_METADATA_SERVICE_ENDPOINT", "default: http://169.254.169.254", "Who knows this machine's role."},
         {"AWS_CA_BUNDLE", "default: CURL_CA_BUNDLE, else SSL_CERT_FILE, else the system's",
          "PEM file of who signed the server's certificate."},
         {"CURL_CA_BUNDLE", "", "See AWS_CA_BUNDLE."},
         {"SSL_CERT_FILE", "", "See AWS_CA_BUNDLE."}}},
       {"holdfast submit and doctor",
        "",
        {{"HOLDFAST_CHECKPOINT_STORE", "default: kept by the service",
          "The checkpoint_store of jobs that name none; and the place that doctor looks at."}}},
       {"holdfast serve",
        "",
        {{"HOLDFAST_ALLOW_INSECURE", "", "Set to true: listen beyond this machine without TLS; as --allow_insecure."}}},
       {"holdfast submit --launch",
        "",
        {{"HOLDFAST_WORKER_TOKEN", "default: one that is made for the launch, else worker.token in the data directory",
          "The token of role worker that launched workers get; for people whose own token may not make one."},
         {"HOLDFAST_BIN", "default: the folder of this program", "slurm: the folder in which the nodes find the programs."},
         {"XDG_STATE_HOME", "default: ~/.local/state",
          "ssh: on the hosts, the folder below which a worker's lock, log and exit status lie while it runs "
          "(holdfast/launch)."}}},
       {"holdfast doctor",
        "",
        {{"SLURM_CONF", "default: /etc/slurm/slurm.conf",
          "Slurm's: where it is told of a cluster. Slurm is looked at where there is such a file."}}},
       {"holdfast: how it writes",
        "",
        {{"NO_COLOR", "", "Set to anything: no colours (https://no-color.org)."},
         {"CLICOLOR_FORCE", "", "Set to anything but 0: colours also where no terminal reads. NO_COLOR wins."},
         {"TERM", "", "Unset or dumb: no colours, and nothing is drawn in place; progress comes line by line."}}},
       {"holdfast-worker",
        "",
        {{"HOLDFAST_INTERFACE", "", "Network interface that other workers reach; --interface wins."},
         {"HOLDFAST_MEMORY_GIB", "default: that of the memory cgroup",
          "Most memory of the machine that jobs may take of a worker; --memory_gib wins."},
         {"HOLDFAST_DATA_CACHE", "default: below --data_root, else ~/.cache/holdfast",
          "Folder to keep data sets (data:NAME) in; --data_cache wins."},
         {"HOLDFAST_DATA_CACHE_GIB", "default: what the volume has room for",
          "Most that data sets (data:NAME) may take on this machine; --data_cache_gib wins."},
         {"XDG_CACHE_HOME", "default: ~/.cache",
          "Data sets lie below it, in holdfast/, where there is neither --data_cache nor --data_root."},
         {"HOLDFAST_THREADS", "default: all cores", "Threads for computing; --threads wins."},
         {"HOLDFAST_LOG_LEVEL", "default: info", "trace, debug, info, warning or error; --log_level wins."},
         {"HOLDFAST_TENSORBOARD_DIR", "default: none", "Folder for TensorBoard's event files; --tensorboard_dir wins."},
         {"HOLDFAST_RANGES", "",
          "1: on a GPU, what the worker does is shown as ranges of roctx or NVTX, for rocprofv3 or nsys."},
         {"HOLDFAST_GPU_GRAPHS", "", "0: a GPU's ops are launched one by one, a microbatch not as one graph. Same bits."},
         {"HOLDFAST_GPU_SIDE_STREAM", "", "0: a GPU computes gradients of weights not beside those of inputs. Same bits."},
         {"HOLDFAST_DRILLS", "", "Folder of files that `holdfast chaos` steers this worker with; --drills wins."},
         {"HOLDFAST_CPU_ISA", "default: the best there is",
          "Instruction set for training on processors, such as avx2 or avx512. Workers of an exact job need the same one."},
         {"NCCL_SOCKET_IFNAME", "",
          "Taken where HOLDFAST_INTERFACE is unset, with NCCL's forms of names: eth (so begins a name), =eth0, ^docker, "
          "^=docker0."},
         {"NCCL_SHM_DISABLE", "", "1: as --no_shared_memory, gradients go over TCP between the workers of a machine, too."},
         {"NCCL_TIMEOUT", "",
          "Seconds after which a collective without progress has failed; collective_timeout_s of the job wins."},
         {"NCCL_DEBUG", "", "WARN, INFO or TRACE: taken where HOLDFAST_LOG_LEVEL is unset."},
         {"MASTER_ADDR", "", "torchrun's: where the service is looked for, at port 7070, when HOLDFAST_SERVER is unset."},
         {"LOCAL_RANK", "", "torchrun's: the number of the GPU that --device auto tries first."},
         {"SLURM_LOCALID", "", "Slurm's for the same, where LOCAL_RANK is not set."},
         {"HOLDFAST_LOCKS", "", "The folder in which workers see who has which GPU; without it /dev/shm, or /tmp."},
         {"MASTER_PORT, RANK, WORLD_SIZE", "",
          "torchrun's: not read. The service listens where `holdfast serve --listen` says, it deals ranks, and a job's "
          "--nodes says how many workers it wants."},
         {"NCCL_IB_DISABLE, NCCL_BUFFSIZE and the like", "",
          "Not read, and harmless: between nodes workers talk over TCP. InfiniBand is used as an IP network: --interface ib0."},
         {"TORCH_DISTRIBUTED_DEBUG", "", "Not read: HOLDFAST_LOG_LEVEL=debug says more."}}},
       {"For tests",
        "",
        {{"HOLDFAST_FAULT", "", "Faults that the service or a worker brings upon itself. Not for work that matters."}}}}};
}

std::string help_of(const std::string& field) {
  return std::ranges::find(rendezvous::job_spec_fields(), field, &rendezvous::SpecField::name)->help;
}

// "torchrun": the flags of other trainers and what they are here.
HelpTopic foreign_names_topic() {
  HelpTopic topic{"torchrun", "Coming from torchrun, nanoGPT and training scripts", {}};
  topic.sections.push_back(
      {"",
       "Names that mean the same as a field of the job spec may be typed as they are, `holdfast submit` takes them; of the "
       "others it says what to do instead. torchrun starts processes on nodes, and they find each other. Here the service is "
       "started once (`holdfast serve`), a worker on each node (`holdfast-worker --server URL`), and jobs are submitted to the "
       "service. `ops/run_2nodes` does all of it for two nodes, with a command on each.",
       {}});
  std::map<std::string, std::vector<HelpEntry>> by_origin;
  for (const rendezvous::ForeignName& name : rendezvous::foreign_names()) {
    const std::string field = name.field, value = name.value, allowed = name.allowed, values = name.values;
    const std::string facts = field.empty()    ? (allowed.empty() ? "" : "only " + allowed)
                              : values.empty() ? fmt::format("--{}{}", field, value.empty() ? "" : " " + value)
                                               : fmt::format("--{}: {}", field, values);
    by_origin[name.from].push_back({fmt::format("--{}", name.name), facts, field.empty() ? name.instead : help_of(field)});
  }
  for (auto& [origin, entries] : by_origin) topic.sections.push_back({fmt::format("Of {}", origin), "", std::move(entries)});
  return topic;
}

HelpTopic exit_codes_topic() {
  return {
      "exit_codes",
      "Exit codes",
      {{"",
        "What `holdfast` ends with; scripts may rely on it.",
        {{"0", "", "Done. Of wait, submit --watch and show --watch: the job succeeded."},
         {"1", "",
          "The job failed or was cancelled, the wait took too long, or a check (audit, ckpt verify, chaos) found something."},
         {"2", "",
          "Bad input: an unknown command or flag, a wrong value, a job that is not there, or a request the service refused."},
         {"3", "", "The service cannot be reached, or does not answer as one."},
         {"4", "", "Not allowed: no token, a wrong one, or one whose role does not permit it."},
         {"130", "", "Ctrl-C while a job was watched or waited for. The job goes on."}}}}};
}

HelpTopic files_topic() {
  return {"files",
          "Files",
          {{"",
            "In the service's data directory (--data_dir, HOLDFAST_DATA_DIR):",
            {{"admin.token", "",
              "The token that may do everything, made at the service's first start; readable by its user alone."},
             {"worker.token", "", "The token for holdfast-worker."},
             {"holdfast.sqlite", "",
              "Jobs, events, logs, metrics. Back it up with `holdfast backup`, while the service runs, not by copying the "
              "file."}}}}};
}

std::string entry_text(const HelpEntry& entry, size_t indent, size_t width, bool colour) {
  std::string text = std::string(indent, ' ') + painted(entry.term, Style::kBold, colour);
  if (!entry.facts.empty()) {
    const size_t used = indent + columns(entry.term) + 2;
    const auto lines = wrapped(entry.facts, width > used + 20 ? width - used : width - indent - 4);
    const bool beside = width > used + 20;
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string before = i == 0 && beside ? "  " : "\n" + std::string(beside ? used : indent + 4, ' ');
      text += before + painted(lines[i], Style::kFaint, colour);
    }
  }
  for (const std::string& line : wrapped(entry.text, width - indent - 4)) text += "\n" + std::string(indent + 4, ' ') + line;
  return text + "\n";
}

}  // namespace

const std::vector<HelpTopic>& help_topics() {
  static const std::vector<HelpTopic> topics = {job_spec_topic(), foreign_names_topic(), environment_topic(),
                                                exit_codes_topic(), files_topic()};
  return topics;
}

std::optional<HelpTopic> find_help_topic(const std::string& name) {
  for (const HelpTopic& topic : help_topics()) {
    if (topic.name == name) return topic;
  }
  for (const auto& field : rendezvous::job_spec_fields()) {
    if (field.name == name) return field_topic(field);
  }
  return std::nullopt;
}

std::string text_of(const HelpTopic& topic, size_t width, bool colour) {
  constexpr size_t kIndent = 2, kNarrowest = 30;
  width = std::max(width, kNarrowest);
  std::string text = painted(topic.title, Style::kBold, colour) + "\n";
  for (const HelpSection& section : topic.sections) {
    if (!section.heading.empty()) text += "\n" + painted(section.heading, Style::kBold, colour) + "\n";
    for (const std::string& line : wrapped(section.text, width)) text += line + "\n";
    if (!section.text.empty() && !section.entries.empty()) text += "\n";
    for (const HelpEntry& entry : section.entries) text += entry_text(entry, kIndent, width, colour);
  }
  return text;
}

Json json_of(const HelpTopic& topic) {
  Json sections = Json::array();
  for (const HelpSection& section : topic.sections) {
    Json entries = Json::array();
    for (const HelpEntry& entry : section.entries)
      entries.push_back({{"term", entry.term}, {"facts", entry.facts}, {"text", entry.text}});
    sections.push_back({{"heading", section.heading}, {"text", section.text}, {"entries", entries}});
  }
  return {{"topic", topic.name}, {"title", topic.title}, {"sections", sections}};
}

}  // namespace holdfast::ops
