// The shells' side of completion: each hands the words typed so far to `holdfast __complete` and offers what comes back.
#include "ops/cli/help/completion.h"

namespace holdfast::ops {
namespace {

// Bash breaks words at = and :, the program does not. The script joins such words before it asks, and cuts from each candidate
// the part that bash holds for separate words. Works without the package bash-completion.
constexpr const char* kBash = R"SH(# Completion of holdfast for bash. To load: source <(holdfast completion bash)
_holdfast() {
  local -a words=() found=()
  local word current i fixed='' part files=none rest=${COMP_LINE:0:COMP_POINT}
  for ((i = 0; i <= COMP_CWORD; i++)); do
    local joined=1
    [[ $rest == [[:space:]]* ]] && joined=
    rest=${rest#"${rest%%[![:space:]]*}"}
    word=${COMP_WORDS[i]}
    ((i == COMP_CWORD)) && word=$rest
    rest=${rest#"$word"}
    if [[ $joined ]] && ((i > 0)); then words[-1]+=$word; else words+=("$word"); fi
  done
  words=("${words[@]//[\"\'\\]/}")
  current=${words[-1]}
  for i in = :; do
    [[ $COMP_WORDBREAKS == *"$i"* && $current == *"$i"* ]] || continue
    part=${current%"${current##*"$i"}"}
    ((${#part} > ${#fixed})) && fixed=$part
  done
  while IFS=$'\t' read -r word _; do
    case $word in
      :none | :files | :dirs) files=${word#:} ;;
      *)
        printf -v word %q "${word#"$fixed"}"
        found+=("$word")
        ;;
    esac
  done < <("$1" __complete "${words[@]:1}" 2>/dev/null)
  COMPREPLY=("${found[@]}")
  part=${current#"$fixed"}
  if [[ $files != none ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(
      if [[ $files == dirs ]]; then compgen -d -- "$part"; else compgen -f -- "$part"; fi)
  fi
  if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -F _holdfast holdfast
)SH";

constexpr const char* kZsh = R"SH(#compdef holdfast
# Completion of holdfast for zsh. To load: source <(holdfast completion zsh), after compinit
_holdfast() {
  local -a args described unfinished
  local word help files=none
  args=("${(@Q)words[2,CURRENT]}")
  args[-1]=${(Q)PREFIX}
  while IFS=$'\t' read -r word help; do
    case $word in
      :none | :files | :dirs) files=${word#:} ;;
      *=) unfinished+=("$word") ;;
      *) described+=("${word//:/\\:}${help:+:$help}") ;;
    esac
  done < <("${(Q)words[1]}" __complete "${args[@]}" 2>/dev/null)
  local added=1
  if (( $#unfinished )); then compadd -S '' -- "${unfinished[@]}" && added=0; fi
  if (( $#described )); then _describe -V holdfast described && added=0; fi
  if [[ $files != none ]]; then
    [[ $PREFIX == --*=* ]] && compset -P '--*='
    if [[ $files == dirs ]]; then _files -/ && added=0; else _files && added=0; fi
  fi
  return added
}
if [[ $funcstack[1] == _holdfast ]]; then _holdfast "$@"; else compdef _holdfast holdfast; fi
)SH";

constexpr const char* kFish = R"SH(# Completion of holdfast for fish. To load: holdfast completion fish | source
function __holdfast_complete
    set -l words (commandline -opc)
    set -l program $words[1]
    set -e words[1]
    set -l current (commandline -ct)
    set -l flag (string match -r -- '^--[^=]*=' "$current")
    for line in ($program __complete $words "$current" 2>/dev/null)
        switch $line
            case :none
            case :files
                for path in (__fish_complete_path (string replace -r -- '^--[^=]*=' '' "$current"))
                    echo "$flag$path"
                end
            case :dirs
                for path in (__fish_complete_directories (string replace -r -- '^--[^=]*=' '' "$current"))
                    echo "$flag$path"
                end
            case '*'
                echo $line
        end
    end
end
complete -c holdfast -f -a '(__holdfast_complete)'
)SH";

}  // namespace

std::string completion_script(const std::string& shell) {
  return shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish;
}

}  // namespace holdfast::ops
