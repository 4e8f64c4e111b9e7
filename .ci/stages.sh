# shellcheck shell=bash
# Runs a script's stages, one function stage_NAME each, one after the other, and says what each of them took. For .ci/run and
# .ci/nightly, which source it.
#
#   run_stages SCRIPT "ALL STAGES" [STAGE...]      all of them, in their order, where none is named
#
# Stops at the first stage that fails, and says how to run that one alone. Exit status: 0 all passed, 1 one failed, 2 a stage was
# named that there is none of. Each stage runs in a shell of its own: what it exports is its own affair.

run_stages() {
  local script=$1 all=$2
  shift 2
  local stages=("$@") stage begun took status=0 started=$SECONDS summary=() ran=""
  # shellcheck disable=SC2206  # one word a stage
  ((${#stages[@]})) || stages=($all)
  for stage in "${stages[@]}"; do
    declare -F "stage_$stage" >/dev/null || { echo "$script: there is no stage '$stage': ${all// /, }" >&2; return 2; }
  done

  for stage in "${stages[@]}"; do
    echo "=== $stage"
    begun=$SECONDS ran=$stage
    ("stage_$stage")
    status=$?
    took=$(minutes_text $((SECONDS - begun)))
    if ((status != 0)); then
      summary+=("$(printf '%-8s FAILED after %s' "$stage" "$took")")
      break
    fi
    summary+=("$(printf '%-8s passed in %s' "$stage" "$took")")
  done

  echo "=== summary"
  printf '%s\n' "${summary[@]}"
  printf '%-8s %s\n' all "$(minutes_text $((SECONDS - started)))"
  ((status == 0)) && return 0
  echo "the stage '$ran' failed; to run it alone:  $script $ran"
  return 1
}

minutes_text() {  # SECONDS
  printf '%d min %02d s' $(($1 / 60)) $(($1 % 60))
}
