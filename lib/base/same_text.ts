/** A comparison of secrets that takes the same time wherever, and however much, they differ. */

import { createHash, timingSafeEqual } from "node:crypto";

export function isSameText(a: string, b: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
