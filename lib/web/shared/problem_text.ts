/** What went wrong, in words. */
export function problemText(error: unknown): string {
  return error instanceof Error && error.message !== "" ? error.message : String(error);
}
