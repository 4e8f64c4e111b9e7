# shellcheck shell=bash
# What .ci/run and .ci/nightly share; they source it, in the clone's folder, which is $root.

# sanitizer_options: how sanitized programs report; exported for what the stage runs after it.
sanitizer_options() {
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1
  # shellcheck disable=SC2154  # root: above
  export LSAN_OPTIONS=suppressions=$root/.ci/leaks.supp:print_suppressions=0
  export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
}

# Builds tests that say they are concurrent under the thread sanitizer, which has nothing to say about the rest, and runs them: those
# of every change (day), or those that are left to the night, whose programs may be those of the day.
concurrent_tests() {  # day|night
  local programs chosen=(-LE '^nightly$') built=(-LE '^nightly$')
  if [[ $1 == night ]]; then chosen=(-L '^nightly$') built=(); fi
  ops/build tsan help >/dev/null || return 1  # configures; builds nothing
  # A test has its target's name, but for second runs of a program that is in the list without them.
  programs=$(comm -12 <(ctest --test-dir build/tsan -N -L '^concurrent$' "${built[@]}" | sed -nE 's/^ *Test +#[0-9]+: //p' | sort) \
    <(ninja -C build/tsan -t targets all | sed -nE 's/: phony$//p' | sort))
  [[ -n $programs ]] || { echo "no test has the label 'concurrent'"; return 1; }
  # shellcheck disable=SC2086  # one word a program
  ops/build tsan $programs && ops/ctest tsan -L '^concurrent$' "${chosen[@]}"
}

# Runs a script's stages, one function stage_NAME each, one after the other, and says what each of them took.
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
