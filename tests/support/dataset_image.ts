/**
 * An image of a dataset, for tests of what is made of images.
 */

import type { DatasetImage } from "../../lib/cloud_client/dataset.ts";

/** Without labels; what the test names is as it says. */
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
