/** The time limits of modules, and the pauses before they start again. */

export interface ModuleLimits {
  /** Time limit of a start, until the module is ready. */
  readonly startTimeoutMs: number;
  /** A module that has run for this long starts again at once after it ends. */
  readonly settledMs: number;
  /** The pause before a start after a second failure in a row; it doubles with each further one. */
  readonly pauseMs: number;
  /** The longest pause after a run that was ready, and after one that was not. */
  readonly crashPauseMaxMs: number;
  readonly startPauseMaxMs: number;
  /** Time limit for a module's validation of a resource's configuration (published). */
  readonly validateTimeoutMs: number;
  /** Pause between two attempts at a configuration that the module rejects. */
  readonly retryMs: number;
  /** Time limit for a module's end before it is killed (published). */
  readonly stopMs: number;
}

export const MODULE_LIMITS: ModuleLimits = {
  startTimeoutMs: 300_000,
  settledMs: 10_000,
  pauseMs: 500,
  crashPauseMaxMs: 5_000,
  startPauseMaxMs: 30_000,
  validateTimeoutMs: 5_000,
  retryMs: 5_000,
  stopMs: 10_000,
};
