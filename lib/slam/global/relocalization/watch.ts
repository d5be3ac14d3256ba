/**
 * Whether a localized robot sees the map where it should. Nodes are compared with the map, and the scans between them:
 * a robot that stands still makes few nodes.
 */

import type { PoseFit } from "./fit.ts";

/** A node is inconsistent at its assumed place if it fits the map this badly, or this much worse than usual. */
const INCONSISTENT_FIT = 0.3;
const INCONSISTENT_DROP = 0.2;
/** This only counts if the map knows this share of the scan, or contradicts the known part. */
const INCONSISTENT_KNOWN = 0.6;
const CONTRADICTED = { known: 0.2, fit: 0 };
/**
 * A scan between nodes must be worse, and so many of its rays must cross walls: people around a standing robot hide the
 * walls, but nobody sees through them.
 */
const CONTRADICTED_SCAN = { known: 0.2, fit: 0.3, through: 0.1 };
/** Weight of a new fit in the running average of fits. */
const FIT_SHARE = 0.1;
/** The robot may have been kidnapped after this many inconsistent nodes or scans in a row. */
const INCONSISTENT_MAX = 3;
/** Scans between nodes count this far apart, because a quick lidar sees the same again and again. */
const SCANS_APART_S = 0.25;

export class PlaceWatch {
  #usualFit = 0.5;
  /** Nodes, and scans between nodes, in a row. */
  #inconsistent = 0;
  #contradicted = 0;
  #scanS = -Infinity;

  get usualFit(): number {
    return this.#usualFit;
  }

  /** Begins again, at a place that fits so well. */
  reset(usualFit = this.#usualFit): void {
    this.#usualFit = usualFit;
    this.#inconsistent = this.#contradicted = 0;
  }

  /** True if the robot may have been kidnapped. */
  addNode({ known, knownFit }: PoseFit): boolean {
    if (known < CONTRADICTED.known || knownFit >= CONTRADICTED.fit) {
      if (known < INCONSISTENT_KNOWN) return false;
      if (knownFit > Math.max(INCONSISTENT_FIT, this.#usualFit - INCONSISTENT_DROP)) {
        this.#usualFit += FIT_SHARE * (knownFit - this.#usualFit);
        this.#inconsistent = 0;
        return false;
      }
    }
    return ++this.#inconsistent >= INCONSISTENT_MAX;
  }

  /** Whether a scan between nodes counts. */
  wantsScan(timeS: number): boolean {
    return Math.abs(timeS - this.#scanS) >= SCANS_APART_S;
  }

  /** The same for a scan between nodes. */
  addScan(timeS: number, { known, knownFit, through }: PoseFit): boolean {
    this.#scanS = timeS;
    const isContradicted = known >= CONTRADICTED_SCAN.known && knownFit < CONTRADICTED_SCAN.fit &&
      through >= CONTRADICTED_SCAN.through;
    this.#contradicted = isContradicted ? this.#contradicted + 1 : 0;
    return this.#contradicted >= INCONSISTENT_MAX;
  }
}
