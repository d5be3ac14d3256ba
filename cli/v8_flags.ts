/**
 * V8's options for programs that strangers can reach.
 *
 * By default V8 lets the space of new objects grow to some sixty megabytes when many short requests and connections
 * arrive. Most of the memory that a hostile crowd cost was there. With this limit the space stays at 17 MB. V8 takes the
 * limit only at the start of a process: executables carry it, and a start from source gives it.
 */
export const LEAN_HEAP = "--v8-flags=--max-semi-space-size=8";
