// An accelerator that is none: torch's PrivateUse1 key over the memory of the host.
//
// Two devices with random numbers and autograd threads of their own. Every kernel is the CPU's, on the same
// memory, but as strict as a real device: tensors of different devices and foreign generators are refused,
// and float64 too if asked. Counts synchronizations, launches and bytes, which is what a real device's time
// and memory follow.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_set>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using c10::Stream;

constexpr auto kPretend = DeviceType::PrivateUse1;
constexpr DeviceIndex kNumDevices = 2;

std::atomic<int64_t> launches{0}, synchronizations{0}, uploads{0}, downloaded{0};
std::atomic<bool> refuses_double{false};
using Callback = void (*)();
std::atomic<Callback> on_synchronization{nullptr};

void synchronize(int64_t num_bytes) {
  ++synchronizations;
  downloaded += num_bytes;
  if (Callback call = on_synchronization.load()) call();
}

// ---- memory ---------------------------------------------------------------------------------------------

struct Allocation {
  void* data;
  size_t size;
  DeviceIndex device;
};

struct Memory {
  std::mutex mutex;
  c10::CachingAllocator::Stat allocated, reserved;
  size_t total = size_t(64) << 30;
} memory[kNumDevices];

thread_local DeviceIndex current_device = 0;

void release(void* context) {
  auto* a = static_cast<Allocation*>(context);
  {
    std::lock_guard<std::mutex> lock(memory[a->device].mutex);
    memory[a->device].allocated.decrease(a->size);
  }
  std::free(a->data);
  delete a;
}

struct PretendAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t size) override {
    auto& m = memory[current_device];
    {
      std::lock_guard<std::mutex> lock(m.mutex);
      TORCH_CHECK_WITH(
          OutOfMemoryError, m.allocated.current + size <= m.total,
          "pretend out of memory. Tried to allocate ", size, " bytes");
      m.allocated.increase(size);
      // what is freed stays with the allocator, as with CUDA's
      if (m.allocated.current > m.reserved.current)
        m.reserved.increase(m.allocated.current - m.reserved.current);
    }
    void* data = std::aligned_alloc(64, (size + 127) / 64 * 64);
    auto* a = new Allocation{data, size, current_device};
    return {data, a, &release, Device(kPretend, current_device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t n) const override { std::memcpy(to, from, n); }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t = {0, 0}) override {
    for (auto& m : memory) m.reserved.decrease(m.reserved.current - m.allocated.current);
  }
  void recordStream(const c10::DataPtr&, Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0] = memory[device].allocated;
    stats.reserved_bytes[0] = memory[device].reserved;
    return stats;
  }
  void resetAccumulatedStats(DeviceIndex device) override {
    memory[device].allocated.reset_accumulated();
  }
  void resetPeakStats(DeviceIndex device) override {
    memory[device].allocated.reset_peak();
    memory[device].reserved.reset_peak();
  }
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) override {
    auto& m = memory[device];
    return {m.total - m.reserved.current, m.total};
  }
} allocator;
REGISTER_ALLOCATOR(kPretend, &allocator);

// ---- devices, streams, random numbers ----------------------------------------------------------------------

struct Guard final : c10::impl::DeviceGuardImplInterface {
  DeviceType type() const override { return kPretend; }
  Device exchangeDevice(Device d) const override {
    Device before = getDevice();
    setDevice(d);
    return before;
  }
  Device getDevice() const override { return Device(kPretend, current_device); }
  void setDevice(Device d) const override {
    TORCH_CHECK(
        d.index() >= 0 && d.index() < kNumDevices, "pretend error: invalid device ordinal ",
        int(d.index()));
    current_device = d.index();
  }
  void uncheckedSetDevice(Device d) const noexcept override { current_device = d.index(); }
  Stream getStream(Device d) const override { return Stream(Stream::UNSAFE, d, 0); }
  Stream getDefaultStream(Device d) const override { return getStream(d); }
  Stream getNewStream(Device d, int = 0) const override { return getStream(d); }
  Stream exchangeStream(Stream s) const override { return s; }
  DeviceIndex deviceCount() const noexcept override { return kNumDevices; }
  void record(void**, const Stream&, const DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override { synchronize(0); }
  void synchronizeEvent(void*) const override { synchronize(0); }
  void synchronizeDevice(const DeviceIndex) const override { synchronize(0); }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct PretendGenerator final : c10::GeneratorImpl {
  explicit PretendGenerator(DeviceIndex device)
      : GeneratorImpl(Device(kPretend, device), DispatchKeySet(DispatchKey::PrivateUse1)),
        inner(at::detail::createCPUGenerator()) {}
  void set_current_seed(uint64_t seed) override { inner.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { inner.set_offset(offset); }
  uint64_t get_offset() const override { return inner.get_offset(); }
  uint64_t current_seed() const override { return inner.current_seed(); }
  uint64_t seed() override { return inner.seed(); }
  void set_state(const c10::TensorImpl& s) override { inner.unsafeGetGeneratorImpl()->set_state(s); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return inner.unsafeGetGeneratorImpl()->get_state();
  }
  PretendGenerator* clone_impl() const override {
    auto* copy = new PretendGenerator(device_.index());
    copy->inner = inner.clone();
    return copy;
  }
  at::Generator inner;
};

const at::Generator& default_generator(DeviceIndex device) {
  static at::Generator generators[kNumDevices] = {
      at::make_generator<PretendGenerator>(0), at::make_generator<PretendGenerator>(1)};
  return generators[device < 0 ? current_device : device];
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return kNumDevices; }
  void setCurrentDevice(DeviceIndex d) const override { Guard().setDevice(Device(kPretend, d)); }
  DeviceIndex getCurrentDevice() const override { return current_device; }
  DeviceIndex exchangeDevice(DeviceIndex d) const override {
    return Guard().exchangeDevice(Device(kPretend, d)).index();
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex d) const override { return exchangeDevice(d); }
  const at::Generator& getDefaultGenerator(DeviceIndex d) const override {
    return default_generator(d);
  }
  at::Generator getNewGenerator(DeviceIndex d) const override {
    return at::make_generator<PretendGenerator>(d < 0 ? current_device : d);
  }
  Device getDeviceFromPtr(void*) const override { return Device(kPretend, current_device); }
  at::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(at::kCPU); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const override;
};

// ---- a CPU tensor over a device's memory, and back ---------------------------------------------------------

bool is_pretend(const at::Tensor& t) { return t.defined() && t.device().type() == kPretend; }

void check_type(const at::ScalarType type) {
  TORCH_CHECK_TYPE(
      !refuses_double || (type != at::kDouble && type != at::kComplexDouble),
      "Cannot convert a pretend Tensor to float64 dtype as the pretend framework doesn't support float64. "
      "Please use float32 instead.");
}

at::Tensor over(const c10::Storage& storage, DispatchKey key, const at::Tensor& like) {
  auto t = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), DispatchKeySet(key), like.dtype());
  t.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  return t;
}

void resize_storage(const c10::Storage& storage, size_t size) {
  c10::impl::VirtualGuardImpl guard(kPretend);
  auto before = guard.exchangeDevice(storage.device());
  auto data = allocator.allocate(size);
  guard.uncheckedSetDevice(before);
  std::memcpy(data.get(), storage.data(), std::min(size, storage.nbytes()));
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(data));
  storage.unsafeGetStorageImpl()->set_nbytes(size);
}

void Hooks::resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const {
  resize_storage(storage, size);
}

struct Aliases {  // of one call
  struct Entry {
    at::Tensor own, alias;
  };
  std::vector<Entry> entries;
  std::vector<std::pair<c10::Storage, c10::Storage>> storages;

  at::Tensor in(const at::Tensor& t) {
    if (!is_pretend(t)) return t;
    const auto& own = t.storage();
    c10::Storage alias;
    for (auto& [theirs, ours] : storages)
      if (theirs.unsafeGetStorageImpl() == own.unsafeGetStorageImpl()) alias = ours;
    if (!alias) {
      alias = c10::Storage(c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), own.nbytes(),
          c10::DataPtr(own.mutable_data(), Device(at::kCPU)), c10::GetAllocator(at::kCPU), true));
      storages.emplace_back(own, alias);
    }
    entries.push_back({t, over(alias, DispatchKey::CPU, t)});
    return entries.back().alias;
  }

  at::Tensor out(const at::Tensor& t, Device device) {
    if (!t.defined() || t.device().type() != at::kCPU) return t;
    for (auto& e : entries)
      if (e.alias.unsafeGetTensorImpl() == t.unsafeGetTensorImpl()) return e.own;
    check_type(t.scalar_type());
    for (auto& [theirs, ours] : storages)
      if (ours.unsafeGetStorageImpl() == t.storage().unsafeGetStorageImpl())
        return over(theirs, DispatchKey::PrivateUse1, t);
    c10::impl::VirtualGuardImpl guard(kPretend);
    auto before = guard.exchangeDevice(device);
    const size_t size = t.storage().nbytes();
    auto storage = c10::Storage(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), size, allocator.allocate(size), &allocator, true));
    guard.uncheckedSetDevice(before);
    std::memcpy(storage.mutable_data(), t.storage().data(), size);
    return over(storage, DispatchKey::PrivateUse1, t);
  }

  void finish() {  // what the kernel has resized is resized on the device too
    for (auto& [theirs, ours] : storages)
      if (ours.data() != theirs.data()) {
        resize_storage(theirs, ours.nbytes());
        std::memcpy(theirs.mutable_data(), ours.data(), ours.nbytes());
      }
    for (auto& e : entries)
      if (e.own.sizes() != e.alias.sizes() || e.own.strides() != e.alias.strides())
        e.own.unsafeGetTensorImpl()->set_sizes_and_strides(
            e.alias.sizes(), e.alias.strides(), e.alias.storage_offset());
  }
};

// TF32 keeps 10 of the 23 bits behind the point of what goes into a product.
at::Tensor rounded_to_tf32(const at::Tensor& t) {
  if (t.scalar_type() != at::kFloat) return t;
  auto copy = t.contiguous().clone();
  auto* bits = reinterpret_cast<uint32_t*>(copy.data_ptr<float>());
  for (int64_t i = 0; i < copy.numel(); ++i)
    if ((bits[i] & 0x7f800000u) != 0x7f800000u) bits[i] = (bits[i] + 0x1000u) & ~0x1fffu;
  return copy;
}
std::atomic<bool> has_tf32{false};
const std::unordered_set<std::string> kProducts = {
    "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::addmv", "aten::dot"};

// ---- every kernel ------------------------------------------------------------------------------------------

// Their result decides a shape or a number on the host, so the host waits.
const std::unordered_set<std::string> kWaiting = {
    "aten::_local_scalar_dense", "aten::equal", "aten::nonzero", "aten::masked_select", "aten::_unique2",
    "aten::unique_dim", "aten::unique_consecutive", "aten::bincount", "aten::repeat_interleave",
    "aten::_linalg_eigh", "aten::_linalg_svd", "aten::linalg_eig", "aten::linalg_lstsq"};
const std::unordered_set<std::string> kUnknownWithoutDouble = {
    "aten::_linalg_eigh", "aten::_linalg_svd", "aten::linalg_eig"};

bool starts_with(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

bool is_view(const c10::FunctionSchema& schema) {
  if (schema.returns().empty()) return false;
  for (const auto& r : schema.returns())
    if (!r.alias_info() || r.alias_info()->isWrite()) return false;
  return true;
}

struct Call {
  const c10::OperatorHandle& op;
  const std::string& name;
  bool by_element, any_index;
  std::optional<Device> device;
  std::vector<Device> devices;  // of the elements of the first list
  bool mixed = false;
  Aliases aliases;

  explicit Call(const c10::OperatorHandle& op)
      : op(op), name(op.schema().operator_name().name),
        by_element(starts_with(name, "aten::_foreach_") || starts_with(name, "aten::_amp_foreach")),
        any_index(starts_with(name, "aten::index") || starts_with(name, "aten::_index_put")) {}

  void meet(const at::Tensor& t, std::optional<Device> with) {
    if (!t.defined() || (t.device().is_cpu() && (t.dim() == 0 || any_index))) return;
    TORCH_CHECK(
        !with || t.device() == *with, "Expected all tensors to be on the same device, but found at least "
        "two devices, ", with ? with->str() : "", " and ", t.device().str(), "! (", name, ")");
    if (any_index && (t.scalar_type() == at::kBool || t.scalar_type() == at::kByte) && with)
      synchronize(8);
  }

  at::Tensor in(const at::Tensor& t) {
    if (t.defined() && !device && !(t.device().is_cpu() && t.dim() == 0)) device = t.device();
    if (!by_element) meet(t, device);
    return aliases.in(t);
  }

  IValue in(const IValue& value, const c10::Argument& argument) {
    if (value.isTensor()) return in(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      size_t i = 0;
      for (const at::Tensor t : value.toTensorList()) {
        if (by_element && devices.size() == i) devices.push_back(t.device());
        if (by_element && i < devices.size()) meet(t, devices[i]);
        mixed = mixed || t.device() != value.toTensorList().get(0).device();
        list.push_back(in(t));
        ++i;
      }
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor> t : value.toOptionalTensorList())
        list.push_back(t ? std::optional<at::Tensor>(in(*t)) : t);
      return list;
    }
    if (value.isDevice()) {
      if (value.toDevice().type() != kPretend) return value;
      if (!device) device = value.toDevice();
      return Device(at::kCPU);
    }
    auto optional = argument.type()->cast<c10::OptionalType>();
    bool takes_generator = argument.type()->kind() == c10::TypeKind::GeneratorType ||
        (optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType);
    if (!takes_generator) return value;
    if (value.isNone()) return generator(default_generator(device->index()));
    return generator(value.toGenerator());
  }

  at::Generator generator(const at::Generator& given) {
    TORCH_CHECK(
        device && given.device() == *device, "Expected a '", device ? device->str() : "?",
        "' device type for generator but found '", given.device().str(), "'");
    return static_cast<PretendGenerator*>(given.unsafeGetGeneratorImpl())->inner;
  }

  at::Tensor out(const at::Tensor& t) { return aliases.out(t, where()); }
  Device where() const {
    if (!device || device->is_cpu()) return Device(kPretend, current_device);
    return device->has_index() ? *device : Device(kPretend, current_device);
  }

  IValue out(const IValue& value) {
    if (value.isTensor()) return out(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> list;
    size_t i = 0;
    for (const at::Tensor t : value.toTensorList()) {
      list.push_back(by_element && i < devices.size() ? aliases.out(t, devices[i]) : out(t));
      ++i;
    }
    return list;
  }
};

void on_the_host(const c10::OperatorHandle& op, DispatchKeySet, torch::jit::Stack* stack) {
  Call call(op);
  const auto& schema = op.schema();
  TORCH_CHECK_NOT_IMPLEMENTED(
      !refuses_double || !kUnknownWithoutDouble.count(call.name), "The operator '", call.name,
      "' is not currently implemented for the pretend device.");
  if (kWaiting.count(call.name)) synchronize(8);
  const size_t n = schema.arguments().size(), from = stack->size() - n;
  // tensors first: a generator, which may come before them, is asked for their device
  for (bool rest : {false, true})
    for (size_t i = 0; i < n; ++i) {
      IValue& value = (*stack)[from + i];
      const bool holds_tensors = value.isTensor() || value.isTensorList() || value.isOptionalTensorList();
      if (holds_tensors != rest) value = call.in(value, schema.arguments()[i]);
    }
  if (!is_view(schema)) launches += call.by_element && call.mixed ? call.devices.size() : 1;
  if (has_tf32 && kProducts.count(call.name) && at::globalContext().allowTF32CuBLAS())
    for (size_t i = 0; i < n; ++i)
      if ((*stack)[from + i].isTensor() && !schema.arguments()[i].alias_info())
        (*stack)[from + i] = rounded_to_tf32((*stack)[from + i].toTensor());
  op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), stack);
  call.aliases.finish();
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i)
    (*stack)[i] = call.out((*stack)[i]);
}

// ---- kernels that the CPU has not, or has otherwise ---------------------------------------------------------

Device resolve(std::optional<Device> device) {
  return device && device->has_index() ? *device : Device(kPretend, current_device);
}

template <typename Make>
at::Tensor created(std::optional<at::ScalarType> type, std::optional<Device> device, Make make) {
  const auto dtype = c10::dtype_or_default(type);
  check_type(dtype);
  c10::impl::VirtualGuardImpl guard(kPretend);
  auto before = guard.exchangeDevice(resolve(device));
  try {
    at::Tensor t = make(dtype);
    guard.uncheckedSetDevice(before);
    return t;
  } catch (...) {
    guard.uncheckedSetDevice(before);
    throw;
  }
}

at::Tensor empty(
    c10::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
    std::optional<Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return created(type, device, [&](at::ScalarType dtype) -> at::Tensor {
    return at::detail::empty_generic(
        size, &allocator, DispatchKeySet(DispatchKey::PrivateUse1), dtype, format);
  });
}

at::Tensor empty_strided(
    c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> type,
    std::optional<at::Layout>, std::optional<Device> device, std::optional<bool>) {
  return created(type, device, [&](at::ScalarType dtype) -> at::Tensor {
    return at::detail::empty_strided_generic(
        size, stride, &allocator, DispatchKeySet(DispatchKey::PrivateUse1), dtype);
  });
}

at::Tensor zeros(
    c10::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
    std::optional<Device> device, std::optional<bool>) {
  return empty(size, type, layout, device, {}, {}).zero_();
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  if (!is_pretend(to)) synchronize(from.numel() * from.element_size());
  else if (!is_pretend(from)) ++uploads;
  else ++launches;
  Aliases aliases;
  aliases.in(to).copy_(aliases.in(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Tensor& set_storage(
    at::Tensor& self, c10::Storage source, int64_t offset, c10::IntArrayRef size,
    c10::IntArrayRef stride) {
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(source));
  std::vector<int64_t> strides(stride.begin(), stride.end());
  if (strides.empty() && !size.empty()) {
    strides.assign(size.size(), 1);
    for (int64_t i = int64_t(size.size()) - 2; i >= 0; --i)
      strides[i] = strides[i + 1] * std::max<int64_t>(size[i + 1], 1);
  }
  self.unsafeGetTensorImpl()->set_sizes_and_strides(size, strides, offset);
  return self;
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_whole_storage(at::Tensor& self, c10::Storage source) {
  const int64_t size = int64_t(source.nbytes() / self.element_size());
  return set_storage(self, std::move(source), 0, {size}, {});
}

const at::Tensor& check_same(const at::Tensor& first, std::initializer_list<at::Tensor> others) {
  for (const auto& t : others)
    TORCH_CHECK(
        !t.defined() || t.device() == first.device(),
        "Expected all tensors to be on the same device, but found at least two devices, ",
        first.device().str(), " and ", t.device().str(), "!");
  ++launches;
  return first;
}

at::Tensor for_cudnn(const at::Tensor& t) {
  return has_tf32 && at::globalContext().allowTF32CuDNN(at::Float32Op::CONV) ? rounded_to_tf32(t) : t;
}

at::Tensor convolution(
    const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& b, c10::IntArrayRef stride,
    c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef output_padding,
    int64_t groups) {
  const at::Tensor bias = b.value_or(at::Tensor());
  check_same(x, {w, bias});
  Aliases a;
  return a.out(
      at::convolution(
          for_cudnn(a.in(x)), for_cudnn(a.in(w)), a.in(bias), stride, padding, dilation, transposed,
          output_padding, groups),
      x.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& g, const at::Tensor& x, const at::Tensor& w, c10::IntArrayRef stride,
    c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef output_padding,
    int64_t groups, std::array<bool, 3> mask) {
  check_same(g, {x, w});
  Aliases a;
  auto [gx, gw, gb] = at::convolution_backward(
      for_cudnn(a.in(g)), for_cudnn(a.in(x)), for_cudnn(a.in(w)), {{g.size(1)}}, stride, padding, dilation,
      transposed, output_padding, groups, mask);
  return {a.out(gx, g.device()), a.out(gw, g.device()), a.out(gb, g.device())};
}

std::tuple<at::Tensor, at::Tensor> dropout(const at::Tensor& x, double p, std::optional<bool> train) {
  if (train.has_value() && !*train) return {x.clone(), at::ones_like(x, at::kBool)};
  ++launches;
  Aliases a;
  auto own = default_generator(x.device().index());
  auto keep = at::empty_like(a.in(x), at::kBool);
  keep.bernoulli_(1 - p, static_cast<PretendGenerator*>(own.unsafeGetGeneratorImpl())->inner);
  auto y = a.in(x) * keep / (1 - p);
  return {a.out(y, x.device()), a.out(keep, x.device())};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(
    const at::Tensor& from_input, const at::Tensor& from_hidden, const at::Tensor& cx,
    const std::optional<at::Tensor>& input_bias, const std::optional<at::Tensor>& hidden_bias) {
  check_same(cx, {from_input, from_hidden});
  Aliases a;
  auto gates = a.in(from_input) + a.in(from_hidden);
  if (input_bias && input_bias->defined()) gates = gates + a.in(*input_bias) + a.in(*hidden_bias);
  auto parts = gates.chunk(4, 1);
  auto i = parts[0].sigmoid(), f = parts[1].sigmoid(), g = parts[2].tanh(), o = parts[3].sigmoid();
  auto cy = f * a.in(cx) + i * g;
  auto hy = o * cy.tanh();
  auto d = cx.device();
  return {a.out(hy, d), a.out(cy, d), a.out(at::cat({i, f, g, o}, 1), d)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(
    const std::optional<at::Tensor>& grad_hy, const std::optional<at::Tensor>& grad_cy,
    const at::Tensor& cx, const at::Tensor& cy, const at::Tensor& workspace, bool has_bias) {
  check_same(cx, {cy, workspace});
  Aliases a;
  auto parts = a.in(workspace).chunk(4, 1);
  auto i = parts[0], f = parts[1], g = parts[2], o = parts[3];
  auto t = a.in(cy).tanh();
  auto gh = grad_hy && grad_hy->defined() ? a.in(*grad_hy) : at::zeros_like(t);
  auto gc = gh * o * (1 - t * t);
  if (grad_cy && grad_cy->defined()) gc = gc + a.in(*grad_cy);
  auto gates = at::cat(
      {gc * g * i * (1 - i), gc * a.in(cx) * f * (1 - f), gc * i * (1 - g * g), gh * t * o * (1 - o)}, 1);
  auto d = cx.device();
  auto bias = has_bias ? a.out(gates.sum(0), d) : at::Tensor();
  return {a.out(gates, d), a.out(gc * f, d), bias};
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_host>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_efficientzerotensor", zeros);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("set_.source_Storage", set_whole_storage);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
  m.impl("native_dropout", dropout);
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  // torch would look through a mask twice
  m.impl("index.Tensor", torch::CppFunction::makeFromBoxedFunction<&on_the_host>());
  // torch would run these one tensor after the other; on a device each is one launch
  for (const auto& op : c10::Dispatcher::singleton().getAllOpNames())
    if (starts_with(op.name, "aten::_foreach_")) {
      auto name = op.name.substr(6) + (op.overload_name.empty() ? "" : "." + op.overload_name);
      m.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&on_the_host>());
    }
}

// Under autocast, products in half precision and what sums up many numbers in single, as CUDA does.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(mm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(addmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(bmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(baddbmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(conv2d, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(scaled_dot_product_attention, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(softmax, int, fp32)
  KERNEL_PRIVATEUSEONE(log_softmax, int, fp32)
  KERNEL_PRIVATEUSEONE(cross_entropy_loss, fp32)
  KERNEL_PRIVATEUSEONE(nll_loss, fp32)
  KERNEL_PRIVATEUSEONE(mse_loss, fp32)
  KERNEL_PRIVATEUSEONE(layer_norm, fp32)
}

const int registered = (at::RegisterPrivateUse1HooksInterface(new Hooks()), 0);

}  // namespace

extern "C" {

void pretend_reset() {
  launches = synchronizations = uploads = downloaded = 0;
  for (DeviceIndex d = 0; d < kNumDevices; ++d) allocator.resetPeakStats(d);
}
int64_t pretend_launches() { return launches; }
int64_t pretend_synchronizations() { return synchronizations; }
int64_t pretend_uploads() { return uploads; }
int64_t pretend_downloaded() { return downloaded; }
int64_t pretend_allocated(int d) { return memory[d].allocated.current; }
int64_t pretend_peak(int d) { return memory[d].allocated.peak; }
int64_t pretend_device() { return current_device; }
void pretend_set_device(int d) { current_device = DeviceIndex(d); }
void pretend_set_total(int d, int64_t size) { memory[d].total = size_t(size); }
void pretend_refuse_double(int yes) { refuses_double = yes; }
void pretend_tf32(int yes) { has_tf32 = yes; }
void pretend_on_synchronization(Callback call) { on_synchronization = call; }
void pretend_seed(int d, int64_t seed) {
  auto generator = default_generator(DeviceIndex(d));
  generator.set_current_seed(uint64_t(seed));
}
int64_t pretend_state_size() { return default_generator(0).get_state().numel(); }
void pretend_get_state(int d, void* to) {
  auto state = default_generator(DeviceIndex(d)).get_state();
  std::memcpy(to, state.data_ptr(), state.numel());
}
void pretend_set_state(int d, void* from) {
  auto state = at::from_blob(from, {pretend_state_size()}, at::kByte);
  auto generator = default_generator(DeviceIndex(d));
  generator.set_state(state);
}

}  // extern "C"
