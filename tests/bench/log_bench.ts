/**
 * The costs of a log line: disabled, distinct, and repeated with and without deduplication.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { Logs } from "../../lib/base/log/log.ts";
import { heading, rate, row } from "./figures.ts";

const LINES = 300_000;
/** Lines that cost some nanoseconds: fewer would be over before the code is optimized. */
const DISABLED_LINES = 100 * LINES;

export function logs(): Promise<void> {
  heading("log lines (sink that only counts)");
  let written = 0;
  const all = new Logs(new SystemClock(), [() => void written++]);
  const logger = all.logger("rdk.bench");
  const measure = (write: (index: number) => void, lines = LINES) => {
    for (let index = 0; index < lines / 10; index++) write(index);
    const began = performance.now();
    for (let index = 0; index < lines; index++) write(index);
    return lines / ((performance.now() - began) / 1000);
  };
  const disabled = measure((index) => logger.debug("a disabled line", () => ({ index })), DISABLED_LINES);
  row("disabled debug line", rate(disabled), `${(1e9 / disabled).toFixed(0)} ns each`);
  all.configure([], false, false);
  const plain = measure((index) => logger.info(`line ${index}`));
  row("distinct, de-duplication off", rate(plain));
  all.configure([], false, true);
  const distinct = measure((index) => logger.info(`line ${index}`));
  row("distinct, de-duplication on", rate(distinct), `${(distinct / plain).toFixed(2)} x off`);
  const before = written;
  const repeated = measure(() => logger.info("the same line"));
  row("repeated, de-duplication on", rate(repeated), `${written - before} lines written`);
  return Promise.resolve();
}
