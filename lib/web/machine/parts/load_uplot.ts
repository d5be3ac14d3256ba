/** The library of plots, loaded when something is first drawn. */

import type uPlot from "uplot";

export async function loadUplot(): Promise<typeof uPlot> {
  // It hands the browser's language to `Intl`, which refuses "C" and "en-US@posix": what browsers say where LANG is C.
  if (!isLanguageTag(navigator.language)) {
    Object.defineProperty(navigator, "language", { value: "en-US", configurable: true });
  }
  return (await import("uplot")).default;
}

function isLanguageTag(text: string): boolean {
  try {
    return Intl.getCanonicalLocales(text).length > 0;
  } catch {
    return false;
  }
}
