// The Point Cloud Library's way to find objects above a plane: RANSAC with a fit, then Euclidean clusters.
//
// Reads clouds from standard input, each a count (32 bits) and its points (x, y, z as floats, millimetres), and
// writes a line for each: milliseconds for the plane, milliseconds for the clusters, number of clusters. The settings
// are those of the benchmark: plane within 60 degrees of level, 10 mm thick, clusters of 300 points linked by 10 mm.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <pcl/point_types.h>
#include <pcl/search/kdtree.h>
#include <pcl/segmentation/extract_clusters.h>
#include <pcl/segmentation/sac_segmentation.h>

using Cloud = pcl::PointCloud<pcl::PointXYZ>;

static double nowMs() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

int main() {
  uint32_t count;
  while (std::fread(&count, 4, 1, stdin) == 1) {
    Cloud::Ptr cloud(new Cloud);
    std::vector<float> values(3 * size_t(count));
    if (std::fread(values.data(), 4, values.size(), stdin) != values.size()) return 1;
    for (size_t n = 0; n < values.size(); n += 3) {
      cloud->push_back(pcl::PointXYZ(values[n], values[n + 1], values[n + 2]));
    }

    const double start = nowMs();
    pcl::SACSegmentation<pcl::PointXYZ> plane;
    plane.setModelType(pcl::SACMODEL_PERPENDICULAR_PLANE);
    plane.setAxis(Eigen::Vector3f(0, -1, 0));
    plane.setEpsAngle(60 * M_PI / 180);
    plane.setMethodType(pcl::SAC_RANSAC);
    plane.setMaxIterations(1000);
    plane.setDistanceThreshold(10);
    plane.setOptimizeCoefficients(true);
    plane.setInputCloud(cloud);
    pcl::PointIndices onPlane;
    pcl::ModelCoefficients coefficients;
    plane.segment(onPlane, coefficients);
    const double planeMs = nowMs() - start;

    std::vector<bool> taken(cloud->size(), false);
    for (int index : onPlane.indices) taken[index] = true;
    Cloud::Ptr rest(new Cloud);
    for (size_t n = 0; n < cloud->size(); n++) {
      if (!taken[n]) rest->push_back((*cloud)[n]);
    }
    const double between = nowMs();
    std::vector<pcl::PointIndices> clusters;
    if (!rest->empty()) {
      pcl::search::KdTree<pcl::PointXYZ>::Ptr tree(new pcl::search::KdTree<pcl::PointXYZ>);
      pcl::EuclideanClusterExtraction<pcl::PointXYZ> extraction;
      extraction.setClusterTolerance(10);
      extraction.setMinClusterSize(300);
      extraction.setMaxClusterSize(int(rest->size()));
      extraction.setSearchMethod(tree);
      extraction.setInputCloud(rest);
      extraction.extract(clusters);
    }
    std::printf("%.3f %.3f %zu\n", planeMs, nowMs() - between, clusters.size());
  }
}
