/**
 * Converts instants and durations between their messages and milliseconds. Milliseconds may have a fraction;
 * a double holds today's instants to about a microsecond.
 */

/** The common shape of google.protobuf.Timestamp and google.protobuf.Duration. */
interface TimeMessage {
  seconds: bigint;
  nanos: number;
}

/** The timestamp of an instant since the Unix epoch. */
export function toTimestamp(timeMs: number): TimeMessage {
  const seconds = Math.floor(timeMs / 1000);
  const nanos = Math.round((timeMs - seconds * 1000) * 1e6);
  return nanos < 1e9 ? { seconds: BigInt(seconds), nanos } : { seconds: BigInt(seconds + 1), nanos: 0 };
}

/** Seconds and nanoseconds of a duration have the same sign, unlike those of a timestamp. */
export function toDuration(ms: number): TimeMessage {
  const { seconds, nanos } = toTimestamp(Math.abs(ms));
  return ms < 0 ? { seconds: -seconds, nanos: -nanos } : { seconds, nanos };
}

/** Milliseconds of a timestamp or a duration; an absent one is 0. */
export function toMs(message: TimeMessage | undefined): number {
  return message ? Number(message.seconds) * 1000 + message.nanos / 1e6 : 0;
}
