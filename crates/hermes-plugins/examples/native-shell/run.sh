#!/bin/sh
# A native plugin: one JSON request a line comes in, one JSON answer a line goes out.
# Errors and remarks go to the standard error, which is the log.

answer() {
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"
}

while IFS= read -r line; do
  rest=${line#*\"id\":}
  id=${rest%%,*}
  case $line in
  *'"method":"initialize"'*)
    answer '{"protocol":1}'
    ;;
  *'"method":"load"'*)
    answer '{"registrations":[
      {"kind":"hook","key":"pre_tool_call","calls":{"call":1}},
      {"kind":"command","key":"load","spec":{"description":"load of this machine"},"calls":{"call":2}}]}' |
      tr -d '\n'
    echo
    ;;
  *'"method":"invoke","params":{"ref":1,'*)
    case $line in
    *'git push --force'*)
      answer '{"value":{"action":"block","message":"force pushes are not allowed here"}}'
      ;;
    *)
      answer '{"value":null}'
      ;;
    esac
    ;;
  *'"method":"invoke","params":{"ref":2,'*)
    answer "{\"value\":\"$(uptime | tr -d '\"\\\\')\"}"
    ;;
  *'"method":"shutdown"'*)
    exit 0
    ;;
  esac
done
