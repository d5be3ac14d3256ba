/** A port of this computer that is free now: for programs that cannot choose one themselves. */
export function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

/** Below the ports that systems give to outgoing connections: Linux takes 32768 and more for them. */
const LASTING = { from: 20_000, to: 32_000 } as const;

/**
 * A free port that stays free, as far as this computer's own connections go: for a program that is started again and
 * again over minutes, while others dial.
 */
export function lastingPort(): number {
  for (;;) {
    const port = LASTING.from + crypto.getRandomValues(new Uint32Array(1))[0]! % (LASTING.to - LASTING.from);
    try {
      Deno.listen({ hostname: "127.0.0.1", port }).close();
      return port;
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    }
  }
}
