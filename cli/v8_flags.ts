/**
 * V8's options for programs that strangers can reach.
 *
 * By default V8 lets the space of new objects grow to some sixty megabytes when many short requests and connections
 * arrive; with the first limit it stays at 17 MB. It also collects the old objects only when their space has grown to
 * four times what was in use, and the runtime's HTTP code ages garbage quickly; with the second limit they are
 * collected at twice (pipelined requests on 8 connections: 67 MB more instead of 120). Most of the memory that a hostile
 * crowd cost was in these two. V8 takes the limits only at the start of a process: executables carry them, and a start
 * from source gives them.
 */
export const LEAN_HEAP = "--v8-flags=--max-semi-space-size=8,--heap-growing-percent=100";
