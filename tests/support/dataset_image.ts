/**
 * An image of a dataset, for tests of its uses.
 */

import type { DatasetImage } from "../../lib/cloud_client/dataset.ts";

/** Without labels; the test overrides fields. */
export function datasetImage(more: Partial<DatasetImage> = {}): DatasetImage {
  return {
    id: "",
    sha256: "image",
    bytes: 3,
    mimeType: "image/png",
    fileName: "eye.png",
    tags: [],
    classifications: [],
    boxes: [],
    capturedMs: 0,
    partId: "",
    componentName: "",
    organizationId: "",
    locationId: "",
    machineId: "",
    ...more,
  };
}
