/**
 * V8's options for programs that strangers can reach.
 *
 * By default V8 lets the space of new objects grow to some sixty megabytes when many short requests and connections
 * arrive; the first limit keeps it at about six. V8 also collects the old objects only when their space has grown to four
 * times what was in use, although the runtime's HTTP code ages garbage quickly; with the second limit it collects them at
 * one and a half times. After 33,000 calls the executable of svc-server holds 1.20 to 1.30 times its idle memory. With
 * twice each limit it was 1.23 to 1.48 times, depending on how soon the collector's threads got the processor, and the
 * calls took no less time of the processor.
 *
 * The third option is for the patterns of `log`: an expression such as `(\w+\.?)+x` would try all ways to divide a
 * name, which takes for ever and holds up everything, the next configuration included. V8 then goes on with an engine
 * that reads each letter once.
 *
 * V8 takes the options only at the start of a process: executables carry them, and a start from source gives them.
 */
export const V8_FLAGS =
  "--v8-flags=--max-semi-space-size=2,--heap-growing-percent=50,--enable-experimental-regexp-engine-on-excessive-backtracks";

/**
 * V8's options for svc-cloud. When a program has allocated little for a while, or has collected nothing for 100 s, V8
 * makes its memory small. With 5,000 machines that held up all calls for up to 3 s, although svc-cloud was at work; the
 * memory that it holds while nothing happens is worth less.
 *
 * By default V8 also collects all memory the sooner, the less garbage there is: with little of it, as soon as the space
 * of old objects has grown by a third. Every collection slows calls down for a quarter of a second, so svc-cloud waits
 * until it has grown to three times what was in use; V8's own limit for programs with much garbage is four times.
 */
export const CLOUD_V8_FLAGS = "--v8-flags=--no-memory-reducer,--heap-growing-percent=200";
