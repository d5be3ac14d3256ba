/**
 * V8's options for programs that strangers can reach.
 *
 * By default V8 lets the space of new objects grow to some sixty megabytes when many short requests and connections
 * arrive. The first limit keeps it at about twelve: after 33,000 calls svc-server holds 1.2 times its idle memory instead
 * of 1.4 with twice this limit, at 3 % of the throughput. V8 also collects the old objects only when their space has grown
 * to four times what was in use, and the runtime's HTTP code ages garbage quickly; the second limit lets it collect them
 * at twice (pipelined requests on 8 connections: 67 MB more instead of 120).
 *
 * The third option is for the patterns of `log`: an expression such as `(\w+\.?)+x` would try all ways to divide a
 * name, which takes for ever and holds up everything, the next configuration included. V8 then goes on with an engine
 * that reads each letter once.
 *
 * V8 takes the options only at the start of a process: executables carry them, and a start from source gives them.
 */
export const V8_FLAGS =
  "--v8-flags=--max-semi-space-size=4,--heap-growing-percent=100,--enable-experimental-regexp-engine-on-excessive-backtracks";
